"""The HTTP API: LibreTranslate's, and what goes beyond it under /v1/."""

import asyncio
import json
import os
import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp

from dragoman.config import VERSION, DragomanError, SearchConfig
from dragoman.inspection.evidence import inspect
from dragoman.serving import page
from dragoman.serving.batching import Batcher, Wanted
from dragoman.serving.directions import AUTO, Directions
from dragoman.serving.gate import Gate, explain
from dragoman.serving.limits import Busy, Keys, Limits
from dragoman.serving.markup import translate_markup
from dragoman.serving.texts import Answer, translate_texts

Name = Annotated[str, Field(min_length=1)]


class Asked(BaseModel):
    """What every request with a text may say."""

    q: Name | Annotated[list[str], Field(min_length=1)] = Field(description="The text, or a list of texts")
    api_key: str = Field("", description="The key, if the server asks for one")


class AskedTranslation(Asked):
    """A request to translate."""

    source: Name = Field(description="Language code of the text, or auto to detect it")
    target: Name = Field(description="Language code to translate into")
    alternatives: int = Field(0, ge=0, description="Further translations")


class AskedLibreTranslation(AskedTranslation):
    """A request to translate, as LibreTranslate takes it."""

    format: Literal["text", "html"] = "text"


class AskedAnswer(AskedTranslation):
    """A request for scores, and for the source word that each word of a translation comes from."""

    alignments: bool = True


class AskedInspection(Asked):
    """A request to look into the translation of one sentence."""

    q: Name
    source: Name
    target: Name
    translation: str = Field("", description="Look at this translation, not the model's own")
    format: Literal["html", "json"] = "html"


A = TypeVar("A", bound=Asked)


class Api:
    """The answers to requests. Each method is a route's: it raises HTTPException for what it refuses."""

    def __init__(self, directions: Directions, search: SearchConfig, limits: Limits, keys: Keys | None) -> None:
        """Answer with these models, within these limits; with keys, only to requests that have one."""
        self._directions, self._search, self._limits, self._keys = directions, search, limits, keys
        self._inspecting = asyncio.Lock()

    async def translate(self, request: Request) -> Response:
        """Translate texts as LibreTranslate does."""
        asked, texts = await self._read(request, AskedLibreTranslation)
        is_markup = asked.format == "html"
        source, detected = self._source(asked.source, texts, is_markup)
        route = self._route(source, asked.target)
        wanted = Wanted(alignment=True) if is_markup else Wanted(1 + asked.alternatives)
        translate = partial(translate_texts, route, wanted=wanted)
        if is_markup and route:
            has_symbols = all(batcher.translator.vocabulary.has_symbols for batcher in route)
            answers = [Answer(text) for text in await translate_markup(texts, translate, has_symbols)]
        else:
            answers = await translate(texts)
        result: dict[str, Any] = {"translatedText": [answer.text for answer in answers]}
        if detected:
            result["detectedLanguage"] = [detected] * len(texts)
        if asked.alternatives:
            result["alternatives"] = [[other.text for other in answer.alternatives] for answer in answers]
        return JSONResponse(result if isinstance(asked.q, list) else {key: value[0] for key, value in result.items()})

    async def detect(self, request: Request) -> Response:
        """Name the languages that a text may be in."""
        _, texts = await self._read(request, Asked)
        return JSONResponse(self._directions.detect("\n".join(texts)))

    async def answer(self, request: Request) -> Response:
        """Translate texts, and tell scores, alignments and lost placeholders."""
        asked, texts = await self._read(request, AskedAnswer)
        source, detected = self._source(asked.source, texts)
        wanted = Wanted(1 + asked.alternatives, asked.alignments)
        answers = await translate_texts(self._route(source, asked.target), texts, wanted)
        extra = {"detectedLanguage": detected} if detected else {}
        return JSONResponse({"translations": [_shown(answer, "lost", "alternatives") | extra for answer in answers]})

    async def inspect(self, request: Request) -> Response:
        """Show the page of `dragoman inspect` about a sentence, or its record as JSON."""
        asked, texts = await self._read(request, AskedInspection)
        source, _ = self._source(asked.source, texts)
        route = self._route(source, asked.target)
        if len(route) != 1:
            raise HTTPException(400, f"No single model translates from {source} to {asked.target}")
        async with self._inspecting:  # PyTorch takes all cores for one
            arguments = (route[0].translator, asked.q, self._search, asked.translation or None)
            found = await asyncio.to_thread(inspect, *arguments)
            shown = await asyncio.to_thread(found.to_html if asked.format == "html" else found.to_dict)
        return HTMLResponse(shown) if isinstance(shown, str) else JSONResponse(shown)

    async def languages(self) -> Response:
        """List languages and their targets."""
        return JSONResponse(self._directions.languages)

    async def settings(self) -> Response:
        """Tell a page what this server takes."""
        (source, target), *_ = self._directions.routes
        names = {language["code"]: language["name"] for language in self._directions.languages}
        return JSONResponse(
            {
                "charLimit": self._limits.max_characters,
                "alternativesLimit": self._limits.max_alternatives,
                "frontendTimeout": 500,
                "apiKeys": bool(self._keys),
                "keyRequired": bool(self._keys),
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {
                    "source": {"code": source, "name": names[source]},
                    "target": {"code": target, "name": names[target]},
                },
            }
        )

    # ---- reading requests

    async def _read(self, request: Request, kind: type[A]) -> tuple[A, list[str]]:
        """What is asked, and its texts."""
        given = await _parameters(request)
        q = given.get("q")
        self._check_key(given.get("api_key", ""), len(q) if isinstance(q, list) else 1)
        try:
            asked = kind.model_validate(given)
        except ValidationError as error:
            raise HTTPException(400, _complaint(error, given)) from None
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        limits = self._limits
        for size, most in [(len(texts), limits.max_texts), *((len(text), limits.max_characters) for text in texts)]:
            if size > most:
                raise HTTPException(400, f"Invalid request: request ({size}) exceeds text limit ({most})")
        if isinstance(asked, AskedTranslation) and asked.alternatives > (most := limits.max_alternatives):
            raise HTTPException(400, f"Invalid request: alternatives parameter must be <= {most}")
        return asked, texts

    def _check_key(self, key: Any, texts: int) -> None:
        if self._keys is None:
            return
        if not key:
            raise HTTPException(400, "Please contact the server operator to get an API key")
        try:
            if not self._keys.accept(str(key), texts):
                raise HTTPException(403, "Invalid API key")
        except Busy as busy:
            message, seconds = busy.args
            raise HTTPException(429, message, {"Retry-After": f"{seconds:.0f}"}) from None

    def _source(self, code: str, texts: list[str], is_markup: bool = False) -> tuple[str, dict[str, Any] | None]:
        """The source language, and what was detected if the client left that to the server."""
        if code != AUTO:
            return self._language(code), None
        text = "\n".join(texts)
        detected = self._directions.detect(re.sub(r"<[^>]*>", " ", text) if is_markup else text)[0]
        return str(detected["language"]), detected

    def _language(self, code: str) -> str:
        found = self._directions.find(code)
        if not found:
            raise HTTPException(400, f"{code} is not supported")
        return found

    def _route(self, source: str, code: str) -> list[Batcher]:
        """The models to follow each other; none where the text stays as it is."""
        target = self._language(code)
        if source != target and (source, target) not in self._directions.routes:
            raise HTTPException(400, f"{target} is not available as a target language from {source}")
        return self._directions.routes.get((source, target), [])


def _shown(answer: Answer, *more: str) -> dict[str, Any]:
    shown: dict[str, Any] = {name: getattr(answer, name) for name in ("text", "score", "log_prob", *more)}
    if "alternatives" in more:
        shown["alternatives"] = [_shown(other) for other in answer.alternatives]
    return shown | ({"alignment": asdict(answer.alignment)} if answer.alignment else {})


async def _parameters(request: Request) -> dict[str, Any]:
    """What a request says, as JSON or in a form and its address; without nulls, which some clients send for nothing."""
    kind = request.headers.get("content-type", "")
    try:
        if "json" in kind:
            given = json.loads(await request.body())
        elif kind.startswith("multipart/form-data"):
            given = dict(await request.form(max_part_size=2**30))  # the body's size is already limited
        else:
            # Not request.form, which takes letters that are not spelt in percent for Latin-1.
            given = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=1000))
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(400, f"Invalid {'JSON' if 'json' in kind else 'form'} format")
    if "json" not in kind:
        given |= request.query_params
        given |= {name: "\n".join(v.splitlines()) for name, v in given.items() if isinstance(v, str)}
    return {name: value for name, value in given.items() if value is not None and (name, value) != ("format", "")}


def _complaint(error: ValidationError, given: dict[str, Any]) -> str:
    """The first thing that is wrong with a request, in LibreTranslate's words where it has some."""
    first = error.errors()[0]
    name = first["loc"][0]
    if given.get(str(name), "") in ("", []):
        return f"Invalid request: missing {name} parameter"
    return f"Invalid request: {name} parameter: {first['msg']}"


def _serve(app: FastAPI, path: str, content: bytes, kind: str, **headers: str) -> None:
    """Answer GET requests for a path with this content."""

    async def answer() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache", **headers})

    app.api_route(path, methods=["GET", "HEAD"], include_in_schema=False)(answer)


async def _metrics() -> Response:
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # of all processes
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def build(directions: Directions, search: SearchConfig, limits: Limits, keys: Keys | None = None) -> ASGIApp:
    """The ASGI application."""
    api = Api(directions, search, limits, keys)
    app = FastAPIOffline(title="Dragoman", version=VERSION, redoc_url=None)
    for path, answer, kind in (
        ("/translate", api.translate, AskedLibreTranslation),
        ("/detect", api.detect, Asked),
        ("/v1/translate", api.answer, AskedAnswer),
        ("/v1/inspect", api.inspect, AskedInspection),
    ):
        schema = {"schema": kind.model_json_schema()}
        body = {"content": {"application/json": schema, "application/x-www-form-urlencoded": schema}}
        app.post(path, openapi_extra={"requestBody": body})(answer)
    app.get("/languages")(api.languages)
    app.get("/frontend/settings")(api.settings)
    app.get("/metrics")(_metrics)
    _serve(app, "/health", b'{"status":"ok"}', "application/json")
    for name, content in page.files().items():
        _serve(app, f"/{name}", content, page.CONTENT_TYPES[Path(name).suffix])
    protection = {"Content-Security-Policy": page.policy(), "Referrer-Policy": "no-referrer"}
    _serve(app, "/", page.render("Translate").encode(), page.CONTENT_TYPES[".html"], **protection)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(DragomanError, _refuse)
    gate = Gate(app, limits)
    if not limits.cors:
        return gate  # otherwise around the gate, so that pages can also read what it refuses
    return CORSMiddleware(gate, allow_origins=limits.cors, allow_methods=["GET", "POST"], allow_headers=["*"])


def _refuse(request: Request, error: Exception) -> JSONResponse:
    return explain(error if isinstance(error, HTTPException) else HTTPException(400, str(error)))
