"""Settings: defaults, then a file, then the environment, then flags; what is wrong is named."""

import json
from pathlib import Path

import pytest

from recapito.cli.toolkit.defaults import DEFAULTS, FILE_VARIABLE
from recapito.cli.toolkit.fatal import TRACEBACK
from recapito.errors import SettingsError
from recapito.settings import settings


def test_defaults_are_safe() -> None:
    """Out of the box the server listens on loopback only, with the default profile and real time."""
    chosen = settings.load(environment={})
    assert chosen.server.host == "127.0.0.1"
    assert chosen.public_url == "http://127.0.0.1:8585"
    assert chosen.delivery.profile == "2021-03"
    assert not chosen.one_process


def test_later_sources_win(tmp_path: Path) -> None:
    """A flag wins over the environment, the environment over the file, the file over the defaults."""
    file = tmp_path / "recapito.toml"
    file.write_text('[server]\nport = 1001\nhost = "::1"\n[clock]\nmode = "scaled:60"\n')
    environment = {"RECAPITO_SERVER_PORT": "1002", "RECAPITO_DEAD_LETTER_KEEP_FOR_EVER": "true"}
    chosen = settings.load(file, environment, {"server.port": 1003, "server.data": None})
    assert chosen.server.port == 1003
    assert chosen.public_url == "http://[::1]:1003"
    assert chosen.clock.rate == 60
    assert chosen.dead_letter.keep_for_ever
    assert settings.load(file, environment).server.port == 1002


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("sever.port", r"unknown section \[sever\]; did you mean \[server\]\?"),
        ("server.prot", r"unknown key server.prot; did you mean server.port\?"),
        ("server.colour", "unknown key server.colour; known: host, port"),
        ("xyz.abc", r"unknown section \[xyz\]; known: server, portal"),
    ],
)
def test_flags_that_are_no_settings(flag: str, said: str) -> None:
    """A dotted name that is no setting is refused with the nearest one, or with all that are."""
    with pytest.raises(SettingsError, match=f"^settings: {said}"):
        settings.load(environment={}, flags={flag: 1})


@pytest.mark.parametrize(
    ("name", "near"),
    [("RECAPITO_SERVER_PROT", "RECAPITO_SERVER_PORT"), ("RECAPITO_DELIVERY_PROFIL", "RECAPITO_DELIVERY_PROFILE")],
)
def test_variables_that_are_no_settings(name: str, near: str) -> None:
    """A variable with our prefix that is neither a setting nor one of a command is refused with the nearest name."""
    with pytest.raises(SettingsError, match=rf"^environment: unknown variable {name}; did you mean {near}\?$"):
        settings.load(environment={name: "1"})


def test_variables_that_are_no_mistakes() -> None:
    """Commands' variables, those of a secret's place, and those that Kubernetes sets are left alone."""
    orders = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/orders"
    given = json.dumps([{"resource_id": orders, "connection_string": {"env": "RECAPITO_ORDERS"}}])
    linked = {
        "RECAPITO_SERVICE_HOST": "10.0.0.1",
        "RECAPITO_SERVICE_PORT_HTTP": "8585",
        "RECAPITO_PORT": "tcp://10.0.0.1:8585",
        "RECAPITO_PORT_8585_TCP_ADDR": "10.0.0.1",
    }
    others = dict.fromkeys(settings.OTHER_VARIABLES, "x") | {"RECAPITO_DEV": "0", "RECAPITO_SETTINGS": ""}
    secret = {"RECAPITO_CONNECTION_RESOURCES": given, "RECAPITO_ORDERS": "UseDevelopmentStorage=true", "PATH": "/bin"}
    assert settings.load(environment=linked | others | secret).server.port == 8585


def test_the_variables_of_commands_are_known() -> None:
    """Every variable that gives a flag its default is in the table of those that are no settings."""
    assert {default.variable for default in DEFAULTS.values()} | {FILE_VARIABLE, TRACEBACK} < set(
        settings.OTHER_VARIABLES
    )


def test_manual_clock_and_memory_mean_one_process() -> None:
    """Neither memory nor a manual clock can be shared between processes."""
    assert settings.load(environment={}, flags={"clock.mode": "manual"}).one_process
    assert settings.load(environment={}, flags={"server.store": "memory"}).one_process


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nprot = 1", r"recapito.toml: unknown key server.prot; did you mean server.port\?$"),
        ("[sever]\nport = 1", r"recapito.toml: unknown section \[sever\]; did you mean \[server\]\?$"),
        ("[server]\nport = 'x'", "^server.port: Expected int, got str$"),
        ("server = 5", r"server is a section: write its keys under \[server\]"),
        ("[delivery]\negress = 'all'", "^delivery.egress: Invalid enum value 'all'; known: local, public$"),
        ("[delivery]\nhandshake = ''", "^delivery.handshake: Invalid enum value ''; known: on, off$"),
        ("[server]\nport = 70000", "server.port"),
        ("[server]\ndata = ''", "server.data"),
        ("[clock]\nmode = 'scaled:0'", "clock.mode"),
        ("[delivery]\nca_file = '/no/such/file'", "delivery.ca_file"),
        ("[delivery]\nrequests = 3", "^delivery.requests: 3 is less than 4; leave it at 0$"),
        ("[disk]\nstop_percent = 101.0", "stop_percent"),
        ("[quota]\ntopics = -1", "quota.topics"),
        ("[azure]\nstorage_accounts = ['/subscriptions/s']", "azure.storage_accounts"),
        ("[publish]\nevents_per_second = -1", "publish.events_per_second"),
        ("[tls]\ncert = 'a.pem'", "tls: cert and key"),
        ("[tls]\nkey = 'a.key'", "tls: cert and key"),
        ("[[identity.principals]]\nroles = []", "client_id"),
        ("[[identity.principals]]\nclient_id = ''\nsecret = 's'\nroles = []", r"principals\[0\].client_id"),
        ("[[identity.principals]]\nclient_id = 'a'\nroles = []", r"principals\[0\]: either secret or"),
        ("[[identity.principals]]\nclient_id = 'a'\nsecret_sha256 = 'a'\nroles = []", r"principals\[0\].secret_sha256"),
        (
            "[[identity.principals]]\nclient_id = 'a'\nsecret = 's'\nroles = ['Owner']",
            "'Owner' is not a role; known: R",
        ),
        ("[[identity.principals]]\nclient_id = 'a'\nsecret = 's'\nrole = []", "role"),
        ("[identity]\nissuer = 'https://i'", "identity: issuer and audience"),
        ("[identity]\nissuer = 'i'\naudience = 'a'", "identity.issuer"),
        ("[identity]\nrole_names = { a = 'Boss' }", "identity.role_names: 'Boss'"),
        ("not toml", "recapito.toml"),
    ],
)
def test_wrong_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    """An unknown key, a wrong type or a value out of range is an error that names the key."""
    file = tmp_path / "recapito.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said):
        settings.load(file, {})


def test_lists_in_the_environment() -> None:
    """A setting that is a list is separated by commas in the environment."""
    account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/pictures"
    chosen = settings.load(environment={"RECAPITO_AZURE_STORAGE_ACCOUNTS": f"{account}, {account}2,"})
    assert chosen.azure.storage_accounts == (account, account + "2")


def test_principals_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    """Principals are tables of a file, or JSON in the environment; their secrets are not shown."""
    file = tmp_path / "recapito.toml"
    file.write_text('[[identity.principals]]\nclient_id = "a"\nsecret = "hidden"\nroles = ["reader"]\n')
    [principal] = settings.load(file, {}).identity.principals
    assert (principal.client_id, principal.secret, principal.roles) == ("a", "hidden", ["reader"])
    assert "hidden" not in repr(settings.load(file, {}))
    text = '[{"client_id": "b", "secret": "hidden", "roles": ["Contributor", "EventGrid Data Sender"]}]'
    [principal] = settings.load(file, {"RECAPITO_IDENTITY_PRINCIPALS": text}).identity.principals
    assert principal.client_id == "b"
    with pytest.raises(SettingsError, match="RECAPITO_IDENTITY_PRINCIPALS: this is not JSON") as refused:
        settings.load(file, {"RECAPITO_IDENTITY_PRINCIPALS": text[:-1]})
    assert "hidden" not in str(refused.value)


def test_tls_changes_the_public_url() -> None:
    """With TLS clients are told a name that they can check; what was given is kept."""
    assert settings.load(environment={}, flags={"tls.enabled": True}).public_url == "https://localhost:8585"
    given = {"tls.cert": "a.pem", "tls.key": "a.key", "server.host": "0.0.0.0"}
    assert settings.load(environment={}, flags=given).public_url == "https://0.0.0.0:8585"
    flags = {"tls.enabled": True, "server.public_url": "https://events.example/"}
    chosen = settings.load(environment={}, flags=flags)
    assert chosen.public_url == "https://events.example"
    assert {"events.example", "localhost", "127.0.0.1", "::1"} <= set(chosen.certificate_names)


@pytest.mark.parametrize(
    ("host", "ours"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_on_loopback(host: str, ours: bool) -> None:
    """Whether other machines can reach the server is read from its host."""
    assert settings.load(environment={}, flags={"server.host": host}).on_loopback is ours


def test_wrong_environment_and_missing_file_are_named(tmp_path: Path) -> None:
    """A variable that is no number, and a file that is not there."""
    with pytest.raises(SettingsError, match="RECAPITO_SERVER_PORT: 'many' is not a whole number"):
        settings.load(environment={"RECAPITO_SERVER_PORT": "many"})
    with pytest.raises(SettingsError, match="RECAPITO_DEAD_LETTER_EXTRA_FIELDS: 'perhaps' is not true or false"):
        settings.load(environment={"RECAPITO_DEAD_LETTER_EXTRA_FIELDS": "perhaps"})
    with pytest.raises(SettingsError, match="No such file"):
        settings.load(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("otlp_endpoint", "127.0.0.1:4318"),
        ("sample_ratio", 1.5),
        ("sample_ratio", -0.1),
        ("traces_per_second", 0),
        ("diagnostics_mb", 0),
    ],
)
def test_telemetry_that_can_not_be_is_named(key: str, value: object) -> None:
    """A wrong setting of traces and logs is an error at start that names it."""
    with pytest.raises(SettingsError, match=rf"telemetry\..*{key}"):
        settings.load(environment={}, flags={f"telemetry.{key}": value})


def test_a_list_of_nats_servers_makes_a_node() -> None:
    """One scheme in front of several servers counts for all of them; without it the server is one of its own."""
    chosen = settings.load(environment={}, flags={"server.store": "nats://10.0.0.5:4222,10.0.0.6:4222"})
    assert chosen.nats_servers == ("nats://10.0.0.5:4222", "nats://10.0.0.6:4222")
    assert chosen.in_cluster
    assert not chosen.one_process
    assert not settings.load(environment={}).in_cluster


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"server.store": "postgres://x"}, r"server\.store: 'postgres://x' is unknown; known: sqlite, memory, nats:"),
        ({"server.store": "nats://user:word@host:4222"}, r"server\.store: put the user and the password under"),
        ({"server.store": "nats://host:x"}, r"server\.store: 'nats://host:x' is not the URL"),
        ({"server.store": "nats://host", "clock.mode": "manual"}, r"clock\.mode: a node of a cluster runs by real"),
        ({"cluster.name": "a.b"}, r"cluster\.name: 'a\.b' is not 1 to 48 letters"),
        ({"cluster.node": "a b"}, r"cluster\.node: 'a b' is not"),
        ({"cluster.url": "10.0.0.5"}, r"cluster\.url: '10\.0\.0\.5' is not a URL"),
        ({"cluster.cert_file": "c.pem"}, "cert_file and key_file belong together"),
    ],
)
def test_a_wrong_cluster_is_refused(flags: dict[str, str], said: str) -> None:
    """Each wrong setting of a node is refused by its key, and no secret is echoed."""
    with pytest.raises(SettingsError, match=said) as refused:
        settings.load(environment={}, flags=flags)
    assert "word" not in str(refused.value).replace("password", "")


def test_development_mode() -> None:
    """RECAPITO_DEV turns it on; the public URL is then a name that works beside the container."""
    chosen = settings.load(environment={"RECAPITO_DEV": "1", "RECAPITO_SERVER_HOST": "0.0.0.0"})
    assert chosen.server.development and not chosen.on_loopback and chosen.public_url == "http://localhost:8585"
    assert not settings.load(environment={}).server.development
    later = {"RECAPITO_DEV": "1", "RECAPITO_SERVER_DEVELOPMENT": "false"}
    assert not settings.load(environment=later).server.development
    with pytest.raises(SettingsError, match="RECAPITO_DEV: 'perhaps' is not true or false"):
        settings.load(environment={"RECAPITO_DEV": "perhaps"})


def test_the_file_that_the_environment_names(tmp_path: Path) -> None:
    """RECAPITO_SETTINGS names the settings file, unless a flag does; it must exist."""
    file, other = tmp_path / "a.toml", tmp_path / "b.toml"
    file.write_text("[server]\nport = 1001\n")
    other.write_text("[server]\nport = 1002\n")
    assert settings.load(environment={"RECAPITO_SETTINGS": str(file)}).server.port == 1001
    assert settings.load(other, {"RECAPITO_SETTINGS": str(file)}).server.port == 1002
    with pytest.raises(SettingsError, match=r"settings file .*c\.toml: No such file"):
        settings.load(environment={"RECAPITO_SETTINGS": str(tmp_path / "c.toml")})
