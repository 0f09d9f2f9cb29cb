"""A page in headless Chromium, driven through its debugging pipe.

    browser.py title URL           prints the page's title
    browser.py notebook URL CODE   in JupyterLab: prints what CODE says in a new notebook
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

options = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
  --disable-background-networking --disable-component-update --window-size=1200,900
  --remote-debugging-pipe about:blank""".split()
profile = tempfile.mkdtemp()
(commands, say), (hear, answers) = os.pipe(), os.pipe()
chromium = subprocess.Popen(
    ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "-", "chromium",
     "--user-data-dir=" + profile, *options],
    pass_fds=[commands, answers], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.close(answers)
heard, number, session = os.fdopen(hear, "rb"), 0, {}


def do(method, **params):
    global number
    number += 1
    message = dict(id=number, method=method, params=params, **session)
    os.write(say, json.dumps(message).encode() + b"\0")
    while message.get("id") != number or "method" in message:
        text = b""
        while not text.endswith(b"\0"):
            text += heard.read(1) or sys.exit("Chromium ended")
        message = json.loads(text[:-1])
    return message.get("result", {})


def value_of(script):
    return do("Runtime.evaluate", expression=script).get("result", {}).get("value")


def wait(script):
    end = time.time() + 60
    while not (value := value_of(script)):
        if time.time() > end:
            sys.exit(f"not in 60 s: {script}\n{value_of('document.body.innerText')}")
        time.sleep(0.2)
    return value


def click(element):
    box = f"document.querySelector({element!r})?.getBoundingClientRect()"
    where = wait(f"(r => r?.width && [r.x + r.width / 2, r.y + r.height / 2].join())({box})")
    x, y = map(float, where.split(","))
    for kind in "mousePressed", "mouseReleased":
        do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def notebook(code):
    click('.jp-LauncherCard[data-category="Notebook"]')
    wait("document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]') && 1")
    cell = ".jp-Notebook .cm-content"
    while not value_of(f"document.querySelector({cell!r})?.innerText.trim()"):
        click(cell)  # a notebook that has just come may take nothing yet
        do("Input.insertText", text=code)
        time.sleep(1)
    for kind in "keyDown", "keyUp":  # Shift+Enter
        do("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
           windowsVirtualKeyCode=13, modifiers=8)
    return wait("document.querySelector('.jp-OutputArea-output')?.innerText")


try:
    target = do("Target.getTargets")["targetInfos"][0]["targetId"]
    session["sessionId"] = do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    do("Page.navigate", url=sys.argv[2])
    print(wait("document.title") if sys.argv[1] == "title" else notebook(sys.argv[3]))
finally:
    chromium.kill()
    chromium.wait()
    shutil.rmtree(profile, ignore_errors=True)
