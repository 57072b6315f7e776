"""Runs a command on a terminal of its own, stops it with Ctrl-Z, has it go on as `fg` does, and ends it with `q`.

Usage: suspended.py WORDS COMMAND...   where WORDS are on its screen. Says how the terminal was meanwhile.
"""

import fcntl
import os
import pty
import signal
import sys
import termios

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[?7l", b"\x1b[?7h\x1b[?25h\x1b[?1049l"

words, command = sys.argv[1].encode(), sys.argv[2:]
master, terminal = pty.openpty()
before = termios.tcgetattr(master)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    os.execvp(command[0], command)

shown = b""


def see():
    global shown
    shown += os.read(master, 65536)


def see_words(times):
    while shown.count(words) < times:
        see()


signal.alarm(60)
see_words(1)
os.write(master, b"\x1a")
_, status = os.waitpid(child, os.WUNTRACED)
print("stopped", os.WIFSTOPPED(status))
print("restored", termios.tcgetattr(master) == before)
os.set_blocking(master, False)
try:
    while True:
        see()
except BlockingIOError:
    pass
os.set_blocking(master, True)
print("left the screen", shown.endswith(LEAVE))
stopped_at = len(shown)
os.kill(child, signal.SIGCONT)
see_words(shown.count(words) + 1)
print("entered again", ENTER in shown[stopped_at:])
print("quiet again", not termios.tcgetattr(master)[3] & (termios.ECHO | termios.ICANON))
# No line end: the key alone is enough.
os.write(master, b"q")
_, status = os.waitpid(child, 0)
print("exit", os.waitstatus_to_exitcode(status))
print("restored at the end", termios.tcgetattr(master) == before)
