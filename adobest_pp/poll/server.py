"""The server of a poll: a page for people, a page for the projector, and what both of them ask for.

It is open to everybody who can reach it, so it accepts little and reveals little:

- A request must name one of the server's own hosts and come from its own pages (as for `adobest teach`). There are no
  cookies. Pages load nothing from any other host, and the policy that goes with them forbids it.
- A body has at most 64 KiB. A request that is not understood gets a 4xx status and one sentence.
- Nothing about people is logged or kept: no address, no user agent, no time.
- The projector's requests need a key, which is made at the start, printed once, and never written to disk.
"""

import asyncio
import hmac
import io
import json
import logging
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from adobest_pp._checks import check_epsilon
from adobest_pp._text import brief, visible
from adobest_pp.answers.responses import Responses
from adobest_pp.device import integrity, read_device
from adobest_pp.mechanisms.registry import loads
from adobest_pp.poll import projection
from adobest_pp.poll.polls import ROUNDS, OpenPoll, Refusal
from adobest_pp.teaching.serving import LOCAL, UVICORN, Receive, Scope, Send, is_own, listen, reachable

try:
    import segno
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise ValueError("a poll needs Starlette, uvicorn and segno: install adobest-pp with its extra `poll`") from None

MAX_BODY = 1 << 16
# Seconds between two looks at the inbox, and the least between two fits.
PERIOD = 0.5
QUIET = 10.0
HISTORY = 500
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json"}
LANGUAGES = ("en", "de")
PAGES = ("person.css", "person.js", "projector.css", "projector.js", *(f"{each}.json" for each in LANGUAGES))
EXPORTS = {"nc": "application/x-netcdf", "parquet": "application/vnd.apache.parquet", "html": "text/html"}


def serve_poll(path: Path, host: str = "127.0.0.1", port: int | None = None, address: str | None = None) -> None:
    """Serve a poll of `create_poll` until Ctrl-C, and print its address.

    `host` is the address of this machine to listen at (``"0.0.0.0"`` for all), `port` is free by default, and `address`
    is the one that people use, if it is that of a tunnel or a proxy.
    """
    import uvicorn

    if address is not None and (urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc):
        raise ValueError(f"address must be one such as https://poll.example.org/, got {brief(address)}")
    listening = listen(host, port)
    chosen = listening.getsockname()[1]
    seen = address or f"http://{reachable(host)}:{chosen}/"
    server = PollServer(OpenPoll(path), seen, {f"{name}:{chosen}" for name in (*LOCAL, reachable(host))})
    segno.make(seen, error="m").terminal(compact=True)
    print(f"People answer at {seen}", flush=True)  # noqa: T201
    print(f"For you alone, the projector's page: {seen.rstrip('/')}/projector#key={server.key}", flush=True)  # noqa: T201
    print("Press Ctrl-C to stop. The same command resumes the poll.", flush=True)  # noqa: T201
    with suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(server, **UVICORN)).run(sockets=[listening])


class PollServer:
    """The application, and what the projector shows. It closes the poll when it ends.

    `address` is the one that people use; `hosts` are more hosts, with ports, that browsers may name.
    """

    def __init__(self, poll: OpenPoll, address: str, hosts: Iterable[str] = ()) -> None:
        self.poll, self.address, self.key = poll, address, secrets.token_urlsafe(18)
        self._hosts = {urlsplit(address).netloc.lower(), *(host.lower() for host in hosts)}
        self._version, self._watching = 0, 0
        self._fits: list[dict[str, Any] | None] = [None for _ in poll.published]
        self._history: list[list[dict[str, float]]] = [[] for _ in poll.published]
        self._process: ProcessPoolExecutor | None = None
        self._seed = secrets.randbits(31)
        code = io.BytesIO()
        segno.make(address, error="m").save(code, kind="svg", xmldecl=False, nl=False, omitsize=True, border=2)
        self._qr = code.getvalue().decode()
        pages = files(__package__).joinpath("pages")
        self._pages = {name: pages.joinpath(name).read_bytes() for name in PAGES}
        self._pages["adobest.js"] = read_device()
        person = pages.joinpath("person.html").read_text(encoding="utf-8").replace("{integrity}", integrity())
        self._pages |= {"": person.encode(), "projector": pages.joinpath("projector.html").read_bytes()}
        routes = [
            *(Route(f"/{name}", self._page, methods=["GET"]) for name in self._pages),
            Route("/poll", self._poll, methods=["GET"]),
            Route("/join", self._join, methods=["POST"]),
            Route("/answer", self._answer, methods=["POST"]),
            Route("/projector/events", self._with_key(self._events), methods=["GET"]),
            Route("/projector/guess", self._with_key(self._guess), methods=["GET"]),
            Route("/projector/elsewhere", self._with_key(self._elsewhere), methods=["POST"]),
            Route("/projector/next", self._with_key(self._next), methods=["POST"]),
            Route("/projector/close", self._with_key(self._close), methods=["POST"]),
            Route("/projector/export", self._with_key(self._export), methods=["GET"]),
        ]
        handlers = dict.fromkeys((HTTPException, Refusal, ClientDisconnect), _sentence)
        self._starlette = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless it is for another server or from the page of another."""
        if scope["type"] == "http" and not is_own(scope, self._hosts, ("http", "https")):
            await _told(403, "This is not an address of this poll.")(scope, receive, send)
        elif scope["type"] in ("http", "lifespan"):
            await self._starlette(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    # What people's browsers ask for.

    async def _page(self, request: Request) -> Response:
        name = request.url.path.lstrip("/")
        kind = KINDS.get(Path(name).suffix, "text/html")
        return Response(self._pages[name], media_type=f"{kind}; charset=utf-8", headers=HEADERS)

    async def _poll(self, request: Request) -> Response:
        settings = self.poll.settings
        asked = zip(settings["questions"], self.poll.texts, strict=True)
        return _json(
            {
                "title": settings["title"],
                "name": settings["name"],
                "open": self.poll.desk.is_open,
                "each_person": settings["each_person"],
                "public": settings.get("public") or {},
                "total_epsilon": self.poll.total_epsilon,
                "hash": integrity(),
                "languages": LANGUAGES,
                "questions": [{"text": question["text"], "published": text} for question, text in asked],
            }
        )

    async def _join(self, request: Request) -> Response:
        await _body(request)
        token, question = await self._at_desk(self.poll.desk.join)
        self._version += 1
        return _json({"token": token, "question": question})

    async def _answer(self, request: Request) -> Response:
        content = await _body(request)
        index, number = content.get("question"), content.get("number")
        question, answer = self.poll.question(index, number), content.get("answer")
        if answer is None or not _is_answer(answer):
            raise Refusal(400, "The answer must be an integer or a list of integers.")
        try:
            checked = question.mechanism.check_answers(answer)
        except ValueError:
            raise Refusal(400, "The answer is not one of this question.") from None
        if len(checked) != 1:
            raise Refusal(400, "The answer must be one.")
        # Keep the checked form: an answer of another shape would not fit into one list with the others.
        kept = checked.tolist()[0], self.poll.public(content.get("public"))
        await self._at_desk(self.poll.desk.take, content.get("token"), index, number, *kept)
        return _json({"counted": True})

    # What the projector asks for.

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers=HEADERS)

    async def _stream(self) -> AsyncIterator[str]:
        self._watching += 1
        try:
            seen, last = -1, 0.0
            while True:
                if seen != self._version:
                    seen, last = self._version, time.monotonic()
                    yield f"data: {json.dumps(self._state())}\n\n"
                elif time.monotonic() - last > QUIET:
                    last = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(PERIOD / 2)
        finally:
            self._watching -= 1

    def _state(self) -> dict[str, Any]:
        """Return what the projector shows, as `projection` describes it."""
        poll, settings = self.poll, self.poll.settings
        together = sum if settings["each_person"] == "one" else max
        state = {
            "title": settings["title"],
            "joined": poll.desk.joined,
            "answered": together(poll.counts),
            "open": poll.desk.is_open,
            "address": self.address,
            "qr": self._qr,
            "hash": integrity(),
            "total_epsilon": poll.total_epsilon,
            "questions": [self._question_state(index) for index in range(len(poll.published))],
        }
        return state | ({} if settings["steps"] is None else {"steps": settings["steps"]})

    def _question_state(self, index: int) -> dict[str, Any]:
        poll, asked = self.poll, self.poll.published[index]
        state: dict[str, Any] = {
            "text": poll.settings["questions"][index]["text"],
            "categories": asked.categories,
            "mechanism": poll.settings["questions"][index]["mechanism"],
            "epsilon": asked.mechanism.epsilon,
            "answers": poll.counts[index],
            "least": projection.LEAST_ANSWERS,
            "estimate": self._fits[index],
            "history": self._history[index],
            "can_advance": poll.can_advance(index),
        }
        if asked.subset is not None:
            state["subset"] = [asked.categories[i] for i in asked.subset]
        elif poll.can_advance(index):
            state |= {"round": poll.rounds[index], "rounds": max(ROUNDS, poll.rounds[index])}
        return state

    async def _guess(self, request: Request) -> Response:
        index = self._index(request.query_params.get("question"))
        fit = self._fitted(index)
        responses = await self._at_files(self.poll.responses, index)
        person = secrets.randbelow(len(responses))
        return _json(projection.guess(responses, np.array(fit["mean"]), person))

    async def _elsewhere(self, request: Request) -> Response:
        content = await _body(request)
        index = self._index(content.get("question"))
        fit = self._fitted(index)
        try:
            epsilon = check_epsilon(content.get("epsilon"))
        except ValueError as reason:
            raise Refusal(400, f"{reason}.") from None
        responses = await self._at_files(self.poll.responses, index)
        return _json(await self._fit(projection.elsewhere, responses, np.array(fit["mean"]), epsilon, self._seed))

    async def _next(self, request: Request) -> Response:
        index = self._index((await _body(request)).get("question"))
        if not self.poll.can_advance(index):
            raise Refusal(409, "This question is the same in every round.")
        await self._at_files(self.poll.drain)
        await self._at_files(self.poll.advance, index)
        self._version += 1
        return _json({"round": self.poll.rounds[index]})

    async def _close(self, request: Request) -> Response:
        await _body(request)
        await self._at_desk(self.poll.desk.close_poll)
        await self._at_files(self.poll.drain)
        self._version += 1
        return _json({"open": False})

    async def _export(self, request: Request) -> Response:
        index, kind = self._index(request.query_params.get("question")), request.query_params.get("format")
        if kind not in EXPORTS:
            raise Refusal(400, f"The format must be one of {', '.join(EXPORTS)}.")
        await self._at_files(self.poll.drain)
        responses = await self._at_files(self.poll.responses, index)
        if len(responses) < projection.LEAST_ANSWERS:
            raise Refusal(409, f"An export needs at least {projection.LEAST_ANSWERS} answers.")
        content = await self._fit(exported, responses, self.poll.settings["questions"][index]["text"], kind)
        return Response(content, media_type=EXPORTS[kind], headers=HEADERS)

    def _index(self, given: Any) -> int:
        """Return the index of a question, given as an integer or as text of a query, or raise Refusal."""
        n = len(self.poll.published)
        if isinstance(given, str):
            given = int(given) if given.isdecimal() and given.isascii() and len(given) < 4 else None
        if type(given) is not int or not 0 <= given < n:
            raise Refusal(400, f"The question must be a number from 0 to {n - 1}.")
        return given

    def _fitted(self, index: int) -> dict[str, Any]:
        fit = self._fits[index]
        if fit is None:
            raise Refusal(409, "There is no estimate yet.")
        return fit

    # In the background.

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._work())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if self._process is not None:
                await asyncio.to_thread(self._process.shutdown, cancel_futures=True)
            await asyncio.to_thread(self.poll.close)

    async def _work(self) -> None:
        """Move answers to the collections, and fit new ones while somebody watches, one question at a time."""
        while True:
            start = time.monotonic()
            try:
                if await self._at_files(self.poll.drain):
                    self._version += 1
                for index, count in enumerate(self.poll.counts):
                    fit = self._fits[index]
                    if self._watching and count >= projection.LEAST_ANSWERS and (fit is None or fit["n"] < count):
                        responses = await self._at_files(self.poll.responses, index)
                        self._keep(index, await self._fit(projection.estimate, responses, self._seed))
            except Exception as problem:
                # A full disk, or a fit that failed: answers are safe at the desk, and the next look tries again.
                print(f"adobest: {visible(problem)}", file=sys.stderr, flush=True)  # noqa: T201
                await asyncio.sleep(10 * PERIOD)
            await asyncio.sleep(max(0.0, PERIOD - (time.monotonic() - start)))

    def _keep(self, index: int, fit: dict[str, Any]) -> None:
        names = ("n", "half_width", "honest_half_width")
        self._fits[index] = fit
        self._history[index] = [*self._history[index], {name: fit[name] for name in names}][-HISTORY:]
        self._version += 1

    async def _fit(self, function: Callable[..., Any], *given: Any) -> Any:
        """Run a function in a process of its own, so that answers do not wait for it."""
        if self._process is None:
            self._process = ProcessPoolExecutor(1, get_context("spawn"), _begin_process)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._process, function, *given)
        except BrokenProcessPool:  # it was killed; the next fit gets a new one
            self._process = None
            raise Refusal(409, "The estimate was interrupted: try again.") from None

    async def _at_desk(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.poll.at_desk, function, *given)

    async def _at_files(self, function: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.poll.at_files, function, *given)

    def _with_key(self, handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that refuses requests without the projector's key."""

        async def handler(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.key}".encode()):
                raise Refusal(401, "Open the projector's page at the address that was printed in the terminal.")
            return await handle(request)

        return handler


def _begin_process() -> None:
    """Let the process of the fits end as soon as the server has ended, even if that was killed."""
    # An estimate follows every half second; warnings about the last one are in the report.
    logging.getLogger("adobest_pp").setLevel(logging.ERROR)

    def wait() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def exported(responses: Responses, text: str, kind: str) -> bytes:
    """Return the answers to a question as netCDF or Parquet, or the report on them as one HTML page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "parquet":
            responses.to_parquet(folder / "answers.parquet")
            return (folder / "answers.parquet").read_bytes()
        responses.to_netcdf(folder / "answers.nc")
        if kind == "nc":
            return (folder / "answers.nc").read_bytes()
        from adobest_pp.report.findings import grade_samplers, poll_of_responses
        from adobest_pp.report.folder import write_report

        findings = grade_samplers(poll_of_responses(folder / "answers.nc", text))
        write_report(findings, folder / "report")
        return (folder / "report" / "report.html").read_bytes()


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object that was sent, or raise Refusal."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "The request must be JSON.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise Refusal(413, f"The request must have at most {MAX_BODY} bytes.")
    try:
        content = loads(bytes(body))
    except ValueError:
        raise Refusal(400, "The request must be a JSON object.") from None
    if not isinstance(content, dict):
        raise Refusal(400, "The request must be a JSON object.")
    return content


def _is_answer(answer: Any) -> bool:
    numbers = answer if isinstance(answer, list) else [answer]
    return all(type(number) is int and 0 <= number < 1 << 31 for number in numbers)


def _json(content: Any) -> Response:
    return Response(json.dumps(content), media_type="application/json", headers=HEADERS)


def _told(status: int, sentence: str) -> Response:
    return Response(f"{sentence}\n", status, media_type="text/plain; charset=utf-8", headers=HEADERS)


async def _sentence(request: Request, problem: Exception) -> Response:
    """Answer a request that was refused, broke off or was not understood."""
    if isinstance(problem, Refusal):
        return _told(problem.status, problem.sentence)
    status = problem.status_code if isinstance(problem, HTTPException) else 400
    known = {404: "There is no such page.", 405: "This page takes no such request."}
    return _told(status, known.get(status, "The request was not understood."))
