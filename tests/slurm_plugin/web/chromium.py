"""A real browser that tests steer: Chromium without a window, by its protocol over two pipes."""

import base64
import json
import os
import select
import subprocess
import time
from contextlib import contextmanager
from shutil import which

CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
WAIT_S = 120


class Browser:
    """One page of a browser; ``console`` is what Chromium said about it."""

    def __init__(self, folder):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        # The protocol is spoken on the descriptors 3 and 4.
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        argv = [CHROMIUM, *options, "--hide-scrollbars", f"--user-data-dir={folder}"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, "chromium", *argv, "--remote-debugging-pipe", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._last, self._events, self.console = b"", 0, [], []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        """End it."""
        self._send("Browser.close")
        self._process.wait(timeout=WAIT_S)
        os.close(self._in)
        os.close(self._out)

    def send(self, method, **values):
        """Give a command about the page, and wait for its result."""
        return self._send(method, session=self._session, **values)

    def look(self, url, *, width=1024, height=900, dark=False, script=True):
        """Load a page in a window of this width."""
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.send("Page.navigate", url=url)
        self._until("Page.loadEventFired")

    def run(self, expression):
        """Give the value of an expression of JavaScript in the page."""
        given = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        made = self.send("Runtime.evaluate", userGesture=True, **given)
        assert "exceptionDetails" not in made, made
        return made["result"].get("value")

    def until(self, expression, value=True):
        """Wait until an expression has this value."""
        end_s = time.monotonic() + WAIT_S
        while (now := self.run(expression)) != value:
            assert time.monotonic() < end_s, (expression, now)
            time.sleep(0.05)

    def keys(self, *names):
        """Press keys."""
        for name in names:
            for kind in ("keyDown", "keyUp"):
                text = {"text": name} if len(name) == 1 and kind == "keyDown" else {}
                self.send("Input.dispatchKeyEvent", type=kind, key=name, **text)

    def point(self, x, y, *, press=False):
        """Move the pointer to a place of the window, and press there."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if press else ():
            mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, **mouse)

    def press(self, selector):
        """Press the middle of an element."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{box}.scrollIntoView({{block: 'center'}})")
        x, y = self.run(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box}.getBoundingClientRect())"
        )
        self.point(x, y, press=True)

    def picture(self, path):
        """Save the whole page as it looks."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _send(self, method, *, session=None, **values):
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": values}
        os.write(
            self._out,
            json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0",
        )
        while (answer := self._read()).get("id") != number:
            self._take(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _until(self, event):
        while event not in self._events:
            self._take(self._read())

    def _take(self, event):
        name, given = event.get("method"), event.get("params", {})
        self._events.append(name)
        if name == "Log.entryAdded":
            self.console.append(given["entry"]["text"])
        elif name in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.console.append(json.dumps(given))

    def _read(self):
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], WAIT_S)[0], "Chromium does not answer"
            more = os.read(self._in, 1 << 16)
            assert more, "Chromium ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)


@contextmanager
def chromium(folder):
    """Start it with a folder of its own."""
    one = Browser(folder)
    try:
        yield one
    finally:
        one.close()
