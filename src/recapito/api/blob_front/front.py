"""The front: one connection to the storage service for each connection of a client, request after request."""

import asyncio
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from recapito.api.blob_front.head import MessageHead, WrongHead, read_answer, read_request
from recapito.api.blob_front.passing import collect_body, pass_body, take_head, take_some
from recapito.api.blob_front.storage_service import StorageService
from recapito.domain import limits
from recapito.domain.storage.blob_batch import is_batch, read_batch, read_results
from recapito.domain.storage.blob_change import BlobChange, read_change
from recapito.errors import Busy
from recapito.intake.storage.blob_reporter import UNSETTLED, BlobReporter
from recapito.intake.storage.change_notes import ChangeNote
from recapito.observability.journal import Journal

_TLS_HELLO = b"\x16"


class _Peer(NamedTuple):
    reader: StreamReader
    writer: StreamWriter


class BlobFront:
    """Serves a listening socket until its task is cancelled."""

    def __init__(
        self, service: StorageService, reporter: BlobReporter, journal: Journal, tls: ssl.SSLContext | None
    ) -> None:
        self.reporter = reporter
        self._service = service
        self._journal = journal
        self._tls = tls
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections; at the end, requests under way are cut off, and their notes are left to a restart."""
        server = await asyncio.start_server(self._accept, sock=listener, ssl=self._tls, limit=limits.FRONT_HEAD_BYTES)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > limits.FRONT_CONNECTIONS:
                await _refuse(writer, 503, "ServerBusy", "Too many connections are open.")
            else:
                await self._serve_client(_Peer(reader, writer))
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client is gone or silent, or the front ends: asyncio would print the cancelling of a connection
        except WrongHead as error:
            with suppress(OSError):
                await _refuse(writer, 400, "InvalidInput", f"This is no request that may pass: {error}.")
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_client(self, client: _Peer) -> None:
        """Pass requests on until one side ends its connection."""
        service: _Peer | None = None
        begun = await take_some(client.reader, 1)
        if begun == _TLS_HELLO:
            raise WrongHead("the client speaks TLS, and this front HTTP: use a URL with http://")
        try:
            while raw := await take_head(client.reader, begun):
                begun = b""
                if service is not None and service.reader.at_eof():  # the service ends idle connections
                    service.writer.close()
                    service = None
                request = read_request(raw)
                try:
                    service = service or _Peer(*await self._service.connect())
                except (OSError, TimeoutError) as error:
                    self._journal("blob_front.unreachable", why=str(error) or "it does not answer")
                    message = f"No Azurite answers at {self._service.url}: {error or 'timeout'}. Is it running there?"
                    await _refuse(client.writer, 502, "BadGateway", message)
                    return
                if not await self._exchange(request, client, service):
                    return
        finally:
            if service is not None:
                service.writer.close()

    async def _exchange(self, request: MessageHead, client: _Peer, service: _Peer) -> bool:
        """Pass one request and its answer on; returns whether both connections can be used again."""
        method, target, _ = request.start
        if is_batch(method, target):
            return await self._exchange_batch(request, client, service)
        change = read_change(method, target, request.headers)
        notes = await self._begin({"": change} if change is not None else {}, client)
        if notes is None:
            return False
        note = notes.get("")
        try:
            return await self._converse(request, note, client, service)
        finally:
            if note is not None:
                self.reporter.doubtful(note)

    async def _begin(self, changes: dict[str, BlobChange], client: _Peer) -> dict[str, ChangeNote] | None:
        """The notes of changes that a subscription wants; None if the client was refused, and nothing is noted."""
        notes: dict[str, ChangeNote] = {}
        try:
            for id, change in changes.items():
                note = await self.reporter.begin(change, "https" if self._tls else "http")
                if note is not None:
                    notes[id] = note
        except UNSETTLED as error:
            for note in notes.values():
                self.reporter.not_made(note)
            message = error.message if isinstance(error, Busy) else f"No event could be made of this now: {error}."
            retry_after_s = error.retry_after_s if isinstance(error, Busy) else 5
            await _refuse(client.writer, 503, "ServerBusy", message, retry_after_s)
            return None
        return notes

    async def _exchange_batch(self, request: MessageHead, client: _Peer, service: _Peer) -> bool:
        """Pass a batch and its answer on, each as a whole: both are small, and have the changes in their bodies."""
        if "expect" in request.headers:
            client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        sent = await collect_body(request, client.reader)
        notes = await self._begin(read_batch(request.headers, sent.content(request.length is None)), client)
        if notes is None:
            return False
        try:
            service.writer.write(request.raw + bytes(sent.raw))
            await service.writer.drain()
            answer = await _batch_answer(service)
            got = await collect_body(answer, service.reader)
            results = read_results(answer.headers, got.content(answer.length is None and not answer.until_close))
            for id, note in notes.items():
                result = results.get(id)
                if result is not None or answer.status >= 400:
                    status, headers = (answer.status, answer.headers) if result is None else result
                    if not await self._report(note, status, headers, client):
                        return False
        finally:
            for note in notes.values():
                self.reporter.doubtful(note)
        client.writer.write(answer.raw + bytes(got.raw))
        await client.writer.drain()
        return request.persistent and answer.persistent

    async def _converse(self, request: MessageHead, note: ChangeNote | None, client: _Peer, service: _Peer) -> bool:
        """The request to the service while its answers come back: an early answer ends an upload."""
        service.writer.write(request.raw)
        uploading = asyncio.create_task(pass_body(request, client.reader, service.writer))
        try:
            answer = await self._final_answer(request.start[0], client, service, uploading)
            if answer is None:
                await _refuse(client.writer, 502, "BadGateway", f"The Azurite at {self._service.url} hung up.")
                return False
            if note is not None and not await self._report(note, answer.status, answer.headers, client):
                return False
            client.writer.write(answer.raw)
            await pass_body(answer, service.reader, client.writer)
            return uploading.done() and not uploading.exception() and request.persistent and answer.persistent
        finally:
            uploading.cancel()
            with suppress(asyncio.CancelledError, OSError, TimeoutError, WrongHead):
                await uploading

    async def _final_answer(
        self, method: str, client: _Peer, service: _Peer, uploading: "asyncio.Task[None]"
    ) -> MessageHead | None:
        """The head of the answer; interim answers pass on. None if the service hung up."""
        while True:
            waiting = asyncio.create_task(take_head(service.reader))
            await asyncio.wait({waiting, uploading}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and uploading.exception() is not None:
                waiting.cancel()
                raise uploading.exception() or ConnectionError
            try:
                raw = await waiting
            except ConnectionError:
                return None
            if raw is None:
                return None
            answer = read_answer(raw, method)
            if answer.status >= 200:
                return answer
            client.writer.write(answer.raw)
            await client.writer.drain()

    async def _report(self, note: ChangeNote, status: int, headers: Mapping[str, str], client: _Peer) -> bool:
        """Whether the client may get the answer: the event of a change that was made is stored."""
        if not note.change.succeeded(status, headers):
            self.reporter.not_made(note)
            return True
        try:
            await self.reporter.made(note, headers)
        except UNSETTLED as error:
            self._journal("blob.not_settled", why=str(error))
            message = "The blob was changed, and its event cannot be stored yet; it follows."
            await _refuse(client.writer, 503, "ServerBusy", message, 5)
            return False
        return True


async def _batch_answer(service: _Peer) -> MessageHead:
    """The head of the answer to a batch, after any interim ones. ConnectionError if the service hung up."""
    while (raw := await take_head(service.reader)) is not None:
        answer = read_answer(raw, "POST")
        if answer.status >= 200:
            return answer
    raise ConnectionError("the storage service hung up")


async def _refuse(writer: StreamWriter, status: int, code: str, message: str, retry_after_s: int = 0) -> None:
    """An answer of the front itself, in the form of the storage service's errors; the connection ends with it."""
    escaped = message.replace("&", "&amp;").replace("<", "&lt;")
    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{escaped}</Message></Error>'
    retry = f"Retry-After: {retry_after_s}\r\n" if retry_after_s else ""
    writer.write(
        f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nx-ms-error-code: {code}\r\n{retry}"
        f"Content-Length: {len(body.encode())}\r\nConnection: close\r\n\r\n{body}".encode()
    )
    await writer.drain()
