"""A server that the user started (``vllm serve``): OpenAI's completions with token ids, streamed, so that times are seen.

Forced tokens go to vLLM's token endpoint (``/inference/v1/generate``, ``--enable-scale-out``) where the engine replays traces,
else to completions, with the logits processor of ``forcing.py``. Emptying caches and asking the workers are development
endpoints: the server needs ``VLLM_SERVER_DEV_MODE=1``. ``commands.py`` prints servers' commands with all of this.
"""

import contextlib
import http.client
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from validate.equivalence.arm import ArmSet
from validate.equivalence.engine import Answer, Ended, Lost, best, block_size, ending
from validate.equivalence.identity import Identity, agreed
from validate.equivalence.in_process import FORCED_KEY
from validate.equivalence.order import Order
from validate.equivalence.scenes import Facts, Request
from validate.errors import InputError
from validate.records.arm import Top
from validate.records.secrets import address

SILENCE = 600.0  # seconds without a word after which a server counts as lost: a prefill of a million tokens is faster
CONNECT = 10.0
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds between attempts
BUSY = (408, 425, 429, 500, 502, 503, 504)  # HTTP answers that another attempt may better
LOOKS = 16  # of two servers that take turns at random one would be missed once in 30,000 times
Told = queue.Queue[tuple[Answer, bool | Exception]]  # whether a request is through, or what went wrong
GENERATE, COMPLETIONS = "/inference/v1/generate", "/v1/completions"


class Server:
    """One server. InputError if it cannot be reached, serves no model, or lacks the development endpoints."""

    def __init__(self, url: str, arms: ArmSet, pauses: tuple[float, ...] = PAUSES, silence: float = SILENCE) -> None:
        self.url, self._parts, self._arms = url, address(url), arms
        self._pauses, self._silence = pauses, silence
        self._traces = bool(arms.engine.get("enable_trace_replay"))
        try:
            models = json.loads(self._call("GET", "/v1/models", None))["data"]
            self.model, self._longest = str(models[0]["id"]), int(models[0]["max_model_len"])
            self.serves: str | None = str(models[0].get("root") or self.model)
        except Lost as error:
            raise InputError(str(error)) from error
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{url} does not answer as vLLM does: /v1/models gives no model with max_model_len") from error

    def facts(self) -> Facts:
        """The block size is the server's, the other sizes the arm file's.

        InputError if it serves longer or shorter requests, or if the address leads to several servers: one that is asked for its
        steps would vouch for all.
        """
        block, engine = block_size(self.metrics()), self._arms.engine
        if block is None:
            raise InputError(f"{self.url}/metrics names no block size: is it vLLM, started without --disable-log-stats?")
        if self._longest != engine["max_model_len"]:
            raise InputError(f"{self.url} has max_model_len {self._longest}, and the arm file {engine['max_model_len']}")
        if len({json.dumps([rank.get("process") for rank in self.steps()]) for _ in range(LOOKS)}) > 1:
            raise InputError(f"{self.url} leads to several servers: name each by its own address")
        return Facts(block, engine["max_num_batched_tokens"], self._longest, engine["max_num_seqs"])

    def fresh(self) -> None:
        """See ``Engine``."""
        done = json.loads(self._development("/reset_prefix_cache"))
        if not done.get("success"):
            raise Lost(f"{self.url} does not empty its prefix cache: other requests run there")
        self.count_anew()

    def count_anew(self) -> None:
        """Begins to count steps anew."""
        self._development("/collective_rpc", {"method": "k3_parity_reset"})

    def play(self, order: Order, ended: Ended) -> None:
        """See ``Engine``. One connection a request."""
        told: Told = queue.Queue()
        stop = threading.Event()
        progress: dict[str, int] = {}
        done: set[str] = set()
        try:
            while not order.over(done):
                for request in order.due(progress, done):
                    threading.Thread(target=self._ask, args=(Answer(request), told, stop), daemon=True).start()
                if order.preempt(progress):
                    self._development("/reset_prefix_cache?reset_running_requests=true")
                answer, through = told.get()
                if isinstance(through, Exception):
                    raise through
                name = answer.request.name
                progress[name] = len(answer.tokens)
                if through:
                    done.add(name)
                    ended(answer)
        finally:
            stop.set()

    def identity(self) -> Identity:
        """See ``Engine``."""
        return agreed(self._workers("k3_parity_engine"), self.url)

    def steps(self) -> list[Mapping[str, Any]]:
        """See ``Engine``."""
        return self._workers("k3_parity_steps")

    def metrics(self) -> str:
        """See ``Engine``."""
        return self._patiently("GET", "/metrics").decode()

    def version(self) -> str:
        """See ``Engine``."""
        return str(json.loads(self._patiently("GET", "/version"))["version"])

    def close(self) -> None:
        """The server is its user's."""

    def wait(self) -> bool:
        """See ``Engine``."""
        for pause in (0.0, *self._pauses):
            time.sleep(pause)
            with contextlib.suppress(Lost, InputError):
                self._call("GET", "/health", None)
                return True
        return False

    def _ask(self, answer: Answer, told: Told, stop: threading.Event) -> None:
        """Tells of every output of one request, and when it is through, which is behind its last token. Runs in a thread."""
        try:
            answer.prompt = self._prompt(answer.request)
            path, body = self._asked(answer.request, answer.prompt)
            for event, stamp in self._events(path, body, stop):
                self._take(answer, event, stamp)
                if answer.finish is None and event.get("choices"):
                    told.put((answer, False))
            if stop.is_set():
                return
            if answer.finish is None or answer.finish in ("abort", "error"):
                raise Lost(f"{self.url} ended {answer.request.name} without a result ({answer.finish or 'the stream ended'})")
            told.put((answer, True))
        except Exception as error:  # the thread that waits has to know, whatever it is
            told.put((answer, error))

    def _prompt(self, request: Request) -> tuple[int, ...]:
        """As the server's own renderer makes it: Kimi K3's chat format is no template (vLLM 0.33.0, renderers/kimi_k3.py)."""
        if request.text is None:
            return request.prompt
        body = {"model": self.model, "messages": [{"role": "user", "content": request.text}]}
        return tuple(json.loads(self._patiently("POST", "/tokenize", body))["tokens"])

    def _asked(self, request: Request, prompt: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
        if request.turns:
            raise InputError(f"{self.url}: turns are dictated in process alone; record the stand-in without --url")
        sampling: dict[str, Any] = {"temperature": request.temperature, "max_tokens": request.tokens}
        sampling |= {"ignore_eos": request.ignore_eos, "stop_token_ids": list(request.stop_ids)}
        if request.seed is not None:
            sampling["seed"] = request.seed
        body: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        if request.forced and self._traces:
            sampling |= {"trace_decode_token_ids": list(request.forced), "logprobs": self._arms.top or None, "detokenize": False}
            return GENERATE, body | {"token_ids": list(prompt), "sampling_params": sampling}
        body |= sampling | {"prompt": list(prompt), "return_token_ids": True, "return_tokens_as_token_ids": True}
        body |= {"logprobs": self._arms.top or None, "stop": list(request.stop_strings)}
        if request.worded:
            body |= {"skip_special_tokens": False, "spaces_between_special_tokens": False}
        if request.forced:
            body["vllm_xargs"] = {FORCED_KEY: list(request.forced)}
        return COMPLETIONS, body

    def _take(self, answer: Answer, event: Mapping[str, Any], stamp: float) -> None:
        if message := event.get("error"):
            raise Lost(f"{self.url}: {message.get('message', message) if isinstance(message, dict) else message}")
        for choice in event.get("choices") or ():
            tokens = choice.get("token_ids") or []
            answer.add(stamp, tokens, *self._logprobs(choice.get("logprobs"), len(tokens)))
            if answer.request.worded:
                answer.texts = ("".join(answer.texts) + (choice.get("text") or ""),)
            if reason := choice.get("finish_reason"):
                answer.finish = ending(reason, choice.get("stop_reason"))
        usage, drafts = event.get("usage") or {}, (event.get("metrics") or {}).get("speculative_decoding") or {}
        answer.cached = max(answer.cached, (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        answer.drafted = drafts.get("num_draft_tokens", answer.drafted)
        answer.accepted = drafts.get("num_accepted_draft_tokens", answer.accepted)

    def _logprobs(self, found: Mapping[str, Any] | None, tokens: int) -> tuple[list[float], list[Top]]:
        if not found or not tokens:
            return [], []
        k = self._arms.top
        if "content" in found:  # of the token endpoint
            top = [best(((t["token_id"], t["logprob"]) for t in one["top_logprobs"]), k) for one in found["content"]]
            return [one["logprob"] for one in found["content"]], top
        named = [one or {} for one in found["top_logprobs"]]
        top = [best(((int(word.removeprefix("token_id:")), value) for word, value in one.items()), k) for one in named]
        return found["token_logprobs"], top

    def _events(self, path: str, body: Mapping[str, Any], stop: threading.Event) -> Iterator[tuple[dict[str, Any], float]]:
        """Server-sent events and when each came."""
        connection = self._connection()
        try:
            response = self._sent(connection, "POST", path, body)
            while not stop.is_set() and (line := response.readline()):
                stamp = time.perf_counter()
                data = line.removeprefix(b"data: ").strip()
                if data == b"[DONE]":
                    return
                if line.startswith(b"data: "):
                    yield json.loads(data), stamp
        except TimeoutError as error:
            raise Lost(f"{self.url} said nothing for {self._silence:.0f} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Lost(f"{self.url} broke off: {_why(error)}") from error
        finally:
            connection.close()

    def _workers(self, method: str) -> list[Mapping[str, Any]]:
        results: list[Mapping[str, Any]] = json.loads(self._development("/collective_rpc", {"method": method}))["results"]
        return results

    def _development(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        try:
            return self._patiently("POST", path, body)
        except Refused as error:
            if error.status != 404:
                raise
            raise InputError(f"{self.url} has no {path.partition('?')[0]}: start it with VLLM_SERVER_DEV_MODE=1") from error

    def _patiently(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        return patiently(lambda: self._call(method, path, body), self._pauses)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
        connection = self._connection()
        try:
            return self._sent(connection, method, path, body).read()
        except (OSError, http.client.HTTPException) as error:
            raise Lost(f"{self.url} cannot be reached: {_why(error)}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(str(self._parts.hostname), self._parts.port, timeout=CONNECT)

    def _sent(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Mapping[str, Any] | None
    ) -> http.client.HTTPResponse:
        connection.connect()
        assert isinstance(connection.sock, socket.socket)
        connection.sock.settimeout(self._silence)
        text = None if body is None else json.dumps(body)
        connection.request(method, self._parts.path.rstrip("/") + path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status == 200:
            return response
        said = f"{self.url}{path} answers {response.status} {response.reason}: {_shortened(response.read())}"
        if response.status in BUSY:
            raise Lost(said)
        raise Refused(said, response.status)


class Refused(InputError):
    """An HTTP answer that another attempt will not better. ``status``: its number."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


def patiently(call: Callable[[], bytes], pauses: tuple[float, ...]) -> bytes:
    """What ``call`` returns, asked again after each pause while it is Lost."""
    for pause in pauses:
        try:
            return call()
        except Lost:
            time.sleep(pause)
    return call()


def _shortened(body: bytes) -> str:
    text = body.decode(errors="replace")
    with contextlib.suppress(ValueError, LookupError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    return " ".join(text.split())[:300]


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
