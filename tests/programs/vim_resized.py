"""vim in `muster ssh`, in a terminal that is resized meanwhile; says what is not as it should be.

    vim_resized.py MUSTER JOB NODE FILE
"""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

muster, job, node, edited = sys.argv[1:]
shell = f"stty rows 30 cols 90; {muster} ssh {job} --node {node}; echo code $?; read word"
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp("bash", ["bash", "-c", shell])
before, text = termios.tcgetattr(terminal), b""


def expect(wanted):
    global text
    end = time.time() + 20
    while not (found := re.search(wanted, text)):
        if time.time() > end:
            sys.exit(f"no {wanted!r} in {text[-2000:]!r}")
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536)
    text = text[found.end():]


def enter(line, *answers):
    os.write(terminal, line.encode() + b"\r")
    for answer in answers:
        expect(answer)


expect(rb"\$ ")
enter("PS1='rea''dy> '; stty size", rb"30 90", rb"ready> ")
enter(f"vim -u NONE -n {edited}", rb"\[New")
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 123, 0, 0))
expect(rb"\x1b\[40;1H")  # vim has seen it: a line that was not there before
enter("iwritten in vim\x1b:set columns? lines?", rb"columns=123", rb"lines=41")
enter("\x1b:wq", rb"ready> ")
enter("echo vim-$?; stty size", rb"vim-0", rb"41 123")
enter("exit 7", rb"code 7")
sys.exit("the terminal is not as it was" if termios.tcgetattr(terminal) != before else 0)
