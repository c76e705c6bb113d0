"""A real browser: Debian's chromium without a window, controlled over a pair of pipes.

It speaks the DevTools protocol: JSON objects with a NUL after each. What a page asks for, what it
complains about and which dialogs it opens is noted, so that tests can say what must not happen.
"""

import base64
import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lab.namespaces import Namespace

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 20.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
Json = Mapping[str, object]


class _Message(msgspec.Struct, frozen=True):
    """What comes back: the result of a call, or an event."""

    id: int = 0
    method: str = ""
    params: Json = {}
    result: Json = {}
    error: Json | None = None


class _Evaluated(msgspec.Struct, frozen=True):
    """What an expression gave."""

    value: object = None


class NavigatedError(AssertionError):
    """The page that was asked is gone: another one comes."""


class Browser:
    """The process, and one tab of it.

    `requests` are the addresses that pages asked for; `complaints` errors of scripts and of the
    console, violations of the page's policy, and dialogs.
    """

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._events: list[str] = []
        self._calls = 0
        self._session = ""
        self._unread = b""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The protocol wants descriptors 3 and 4, which are others' in this process.
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={directory}", "about:blank"]
        with namespace.entered():
            self._process = subprocess.Popen(
                ["/bin/bash", "-c", script, *command],
                pass_fds=(theirs_in, theirs_out),
                stderr=subprocess.DEVNULL,
                env={**os.environ, "HOME": str(directory), "TZ": "UTC"},
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._attach()

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    # --- what people do -----------------------------------------------------------------------

    def open(self, address: str) -> None:
        """Go there, and wait until it is loaded."""
        self._go("Page.navigate", url=address)

    def _go(self, method: str, **params: object) -> None:
        self._events.clear()
        self.call(method, **params)
        self.wait_event("Page.loadEventFired")

    def press(self, key: str) -> None:
        """Press a key, such as Enter."""
        text = {"Enter": "\r"}.get(key, key)
        code = {"Enter": 13}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=code,
            )

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, in place of what stands there."""
        self.evaluate(f"(e => {{ e.focus(); e.select(); }})({element(selector)})")
        self.call("Input.insertText", text=text)

    def submit(self, selector: str) -> None:
        """Press Enter in a field of a form, and wait for the page that comes."""
        self.evaluate(f"{element(selector)}.focus()")
        self._events.clear()
        self.press("Enter")
        self.wait_event("Page.loadEventFired")

    # --- what people see ----------------------------------------------------------------------

    def evaluate(self, expression: str) -> object:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return msgspec.convert(answer["result"], _Evaluated).value

    def text(self, selector: str) -> str:
        """The text of an element as it is shown."""
        return str(self.evaluate(f"{element(selector)}.innerText"))

    def content(self, selector: str) -> str:
        """All text in an element, shown or not."""
        return str(self.evaluate(f"{element(selector)}.textContent"))

    def wait(self, expression: str) -> None:
        """Wait until an expression is true; while another page is on its way it is not."""
        deadline = time.monotonic() + PATIENCE
        while not self._is_true(expression):
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body.innerText")
                raise AssertionError(f"it does not become true: {expression}\n{shown}")
            self._read(0.05)

    def _is_true(self, expression: str) -> bool:
        try:
            return bool(self.evaluate(expression))
        except NavigatedError:
            return False

    def wait_event(self, method: str) -> None:
        """Wait for an event of the browser."""
        deadline = time.monotonic() + PATIENCE
        while method not in self._events:
            assert time.monotonic() < deadline, f"the browser sends no event {method}"
            self._read(0.05)

    def picture(self, path: Path, height: int) -> None:
        """Write what a window of this height shows."""
        metrics = self.evaluate("[innerWidth, window.scrollY]")
        assert isinstance(metrics, list)
        clip = {"x": 0, "y": metrics[1], "width": metrics[0], "height": height, "scale": 1}
        answer = self.call(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        path.write_bytes(base64.b64decode(str(answer["data"])))

    # --- the protocol -------------------------------------------------------------------------

    def call(self, method: str, **params: object) -> Json:
        """Call a method, and wait for its result."""
        self._calls += 1
        number = self._calls
        call: dict[str, object] = {"id": number, "method": method, "params": params}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._out, msgspec.json.encode(call) + b"\0")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for message in self._read(0.5):
                if message.id == number:
                    if message.error and "navigated" in str(message.error["message"]):
                        raise NavigatedError(method)
                    assert message.error is None, f"{method}: {message.error}"
                    return message.result
        raise AssertionError(f"the browser does not answer {method}")

    def _read(self, seconds: float) -> list[_Message]:
        """What has come; waits a moment if nothing has."""
        ready, _, _ = select.select([self._in], [], [], seconds)
        if not ready:
            return []
        got = os.read(self._in, 1 << 20)
        assert got, "the browser has ended"
        *whole, self._unread = (self._unread + got).split(b"\0")
        messages = [msgspec.json.decode(each, type=_Message) for each in whole]
        for message in messages:
            self._note(message)
        return messages

    def _note(self, message: _Message) -> None:
        method, params = message.method, message.params
        if not method:
            return
        self._events.append(method)
        match method, params:
            case "Network.requestWillBeSent", {"request": {"url": str(url)}}:
                self.requests.append(url)
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.complaints.append(f"exception: {details}")
            case "Runtime.consoleAPICalled", {"type": str(kind), "args": words}:
                self.complaints.append(f"console.{kind}: {words}")
            case "Log.entryAdded", {"entry": {"text": text, "source": source}}:
                self.complaints.append(f"{source}: {text}")
            case "Page.javascriptDialogOpening", {"message": text}:
                self.complaints.append(f"dialog: {text}")


def element(selector: str) -> str:
    """An expression for an element that must be there."""
    return f"document.querySelector({msgspec.json.encode(selector).decode()})"
