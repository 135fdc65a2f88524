"""Estate files and templates on disk, with the secrets that they name in the environment or in other files.

An error names the file, the line and the key, never a value.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from recapito.domain import limits
from recapito.domain.estate.document import ParsedDocument, read_document
from recapito.domain.estate.estate import fill_in, is_template
from recapito.domain.templates.faults import DocumentFault
from recapito.errors import SettingsError


def load_document(path: Path, environment: Mapping[str, str]) -> ParsedDocument:
    """The document of a file, its secrets filled in; a template has none. SettingsError if it is wrong."""
    if path.suffix == ".bicep":
        raise SettingsError(f"{path}: Bicep is not read as it is; make a template of it: bicep build {path}")
    try:
        with path.open("rb") as file:
            text = file.read(limits.ESTATE_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the file is not text in UTF-8") from None
    document = ParsedDocument(None, {})
    try:
        document = read_document(text)
        if is_template(document.data):
            return document
        return document._replace(data=fill_in(document.data, _secrets(environment, path.parent)))
    except DocumentFault as fault:
        raise SettingsError(locate(path, document, fault.message, fault.path)) from None


def locate(path: Path, document: ParsedDocument, message: str, key: str) -> str:
    """A message about a key, with the file and the line."""
    at = f"{path}:{document.line(key)}"
    return f"{at}: {message}" if not key or key.startswith("line ") else f"{at}: {key}: {message}"


def _secrets(environment: Mapping[str, str], folder: Path) -> Callable[[str, str, str], str]:
    """Reads `{env: NAME}` and `{file: PATH}`; a path is relative to the folder of the document."""

    def read(source: str, name: str, key: str) -> str:
        if source == "env":
            if not environment.get(name):
                raise DocumentFault(f"The variable {name} is not set.", key)
            return environment[name].strip()
        try:
            with (folder / name).open("rb") as file:
                text = file.read(limits.CONNECTION_CHARS + 1).decode().strip()
        except OSError as error:
            raise DocumentFault(f"{name}: {error.strerror}.", key) from None
        except UnicodeDecodeError:
            raise DocumentFault(f"{name} is not text.", key) from None
        if not text or len(text) > limits.CONNECTION_CHARS:
            raise DocumentFault(f"{name} is empty or longer than {limits.CONNECTION_CHARS} characters.", key)
        return text

    return read
