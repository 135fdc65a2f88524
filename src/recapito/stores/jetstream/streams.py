"""The streams of a store on JetStream, two for each partition: connecting to them with all checks, and creating them,
once.
"""

import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from ssl import SSLContext
from typing import Any

import msgspec

from recapito.contracts.stream import StreamMissing, StreamUnknown
from recapito.errors import ClusterUnreachable, SettingsError
from recapito.observability.journal import Journal, silent
from recapito.stores.jetstream import checks
from recapito.stores.jetstream.client import JetStreamOptions
from recapito.stores.jetstream.link import Link
from recapito.stores.jetstream.stream import LOG_ID, PARTITIONS, JetStreamStream

MONITOR_S = 3.0


class JetStreamStreams:
    """The streams of a partition, by one connection, which those of other partitions may share."""

    def __init__(self, link: Link, name: str, partition: int = 0) -> None:
        self._link = link
        self._name = name
        self.log = JetStreamStream(link, f"{name}_LOG_{partition}", f"{name}.log.{partition}")
        self.lanes = JetStreamStream(link, f"{name}_LANES_{partition}", f"{name}.lanes.{partition}")

    def beside(self, partition: int) -> "JetStreamStreams":
        """The streams of another partition, by the same connection."""
        return JetStreamStreams(self._link, self._name, partition)

    def close(self) -> None:
        self._link.close()


def connect(options: JetStreamOptions, journal: Journal = silent, partition: int = 0) -> JetStreamStreams:
    """Connect and check servers and the streams of a partition.

    SettingsError has every fault, with the server and the remedy. It blocks; the connection has a thread and an event
    loop of its own.
    """
    link = Link(options, journal)
    try:
        streams = JetStreamStreams(link, options.name, partition)
        _refuse([*_server_faults(options, link), *_stream_faults(streams, journal)])
    except BaseException:
        link.close()
        raise
    return streams


def connect_all(options: JetStreamOptions, journal: Journal = silent) -> list[JetStreamStreams]:
    """Connect and check the streams of all partitions, which share one connection."""
    first = connect(options, journal)
    try:
        every = [first, *(first.beside(number) for number in range(1, first.log.state().partitions))]
        _refuse(fault for streams in every[1:] for fault in _stream_faults(streams, journal))
    except StreamMissing as error:
        first.close()
        raise SettingsError(str(error)) from error
    except StreamUnknown as error:
        first.close()
        raise _unanswered(first.log, error) from error
    except BaseException:
        first.close()
        raise
    return every


def check_servers(options: JetStreamOptions, replicas: int) -> None:
    """Connect and check the servers alone, before anything is made there. SettingsError has every fault."""
    link = Link(options)
    try:
        few = checks.monitor_faults(options.monitored, replicas)
        _refuse([*_server_faults(options, link), *(() if options.unchecked else few)])
    finally:
        link.close()


def create(
    options: JetStreamOptions,
    log_id: str,
    log_bytes: int,
    lanes_bytes: int,
    replicas: int = checks.LEAST_REPLICAS,
    journal: Journal = silent,
    partitions: int = 1,
) -> None:
    """Create the streams, empty; all partitions share the bounds. SettingsError: one exists, or servers are not fit."""
    link = Link(options, journal)
    try:
        _refuse(_server_faults(options, link))
        for partition in range(partitions):
            streams = JetStreamStreams(link, options.name, partition)
            for stream, size in ((streams.log, log_bytes), (streams.lanes, lanes_bytes)):
                _create(link, stream, log_id, size // partitions, replicas, partitions)
    finally:
        link.close()


def _create(link: Link, stream: JetStreamStream, log_id: str, size: int, replicas: int, partitions: int) -> None:
    metadata = {LOG_ID: log_id} | ({PARTITIONS: str(partitions)} if partitions > 1 else {})
    config = {
        "name": stream.name,
        "subjects": [stream.subject],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": size,
        "max_msgs": -1,
        "max_age": 0,
        "num_replicas": replicas,
        "allow_direct": True,
        "metadata": metadata,
    }
    try:
        stream.info()
    except StreamMissing:
        pass
    else:
        raise SettingsError(f"Stream {stream.name} exists already: it has a store, which is not created anew.")
    try:
        answer = msgspec.json.decode(link.request(f"$JS.API.STREAM.CREATE.{stream.name}", msgspec.json.encode(config)))
    except StreamUnknown as error:
        raise SettingsError(f"Stream {stream.name} cannot be created: {error}.") from error
    if "error" in answer:
        why = answer["error"].get("description", "an error")
        room = " Give JetStream more room on each server, by max_file_store, or choose smaller streams."
        remedy = room if "storage" in why or "resources" in why else ""
        raise SettingsError(f"Stream {stream.name} cannot be created: {why}.{remedy}")


def _refuse(faults: Iterable[str]) -> None:
    found = [fault[0].upper() + fault[1:] for fault in faults]
    if found:
        raise SettingsError(". ".join(found) + ".")


def _server_faults(options: JetStreamOptions, link: Link) -> Iterator[str]:
    yield from checks.version_faults(link.server, link.version)
    yield from checks.payload_faults(link.server, link.max_payload)
    for monitor in options.monitored:
        try:
            tls = options.tls()
            varz, jsz = _get(f"{monitor}/varz", tls), _get(f"{monitor}/jsz?config=1", tls)
        except (OSError, ValueError) as error:
            yield (
                f"the monitor {monitor} does not answer ({error}), and it alone shows whether its server syncs each "
                "message: start that server, set `http` in its configuration, or correct cluster.monitors"
            )
        else:
            yield from checks.server_faults(monitor, varz, jsz)


def _stream_faults(streams: JetStreamStreams, journal: Journal) -> Iterator[str]:
    ids = set()
    for stream in (streams.log, streams.lanes):
        try:
            info = stream.info()
        except StreamMissing as error:
            yield str(error)
            continue
        except StreamUnknown as error:
            raise _unanswered(stream, error) from error
        yield from checks.stream_faults(info)
        ids.add((info["config"].get("metadata") or {}).get(LOG_ID))
        for fault in checks.replica_faults(info):
            journal("nats.replica_behind", why=fault)
    if len(ids) > 1 or None in ids:
        yield f"{streams.log.name} and {streams.lanes.name} are not streams of one store: restore both from one backup"


def _unanswered(stream: JetStreamStream, error: StreamUnknown) -> ClusterUnreachable:
    """Servers that have just been started answer nothing until they have a leader: that is no wrong setting."""
    return ClusterUnreachable(
        f"Stream {stream.name} does not answer ({error}): wait until most of the NATS servers run, and try again."
    )


def _get(url: str, tls: SSLContext | None) -> Any:
    if not url.startswith(("http://", "https://")):
        raise ValueError("it is no URL of http or https")
    with urllib.request.urlopen(url, timeout=MONITOR_S, context=tls) as answer:
        return msgspec.json.decode(answer.read())
