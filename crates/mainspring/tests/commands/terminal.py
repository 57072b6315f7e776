"""Runs a command on a terminal of its own, waits for words, ends it, and says whether the terminal is as it was.

Usage: terminal.py WORDS HOW COMMAND...   where HOW is a key to press, or SIGINT, SIGTERM, SIGHUP.
"""

import os
import pty
import signal
import sys
import termios

words, how, command = sys.argv[1].encode(), sys.argv[2], sys.argv[3:]
master, terminal = pty.openpty()
before = termios.tcgetattr(master)
child = os.fork()
if child == 0:
    os.setsid()
    for number in (0, 1, 2):
        os.dup2(terminal, number)
    os.execvp(command[0], command)
os.close(terminal)

shown = b""


def see():
    """Whether the command has shown more; it has not once it has ended."""
    global shown
    try:
        more = os.read(master, 65536)
    except OSError:
        return False
    shown += more
    return bool(more)


while words not in shown and see():
    pass
during = termios.tcgetattr(master)
if how.startswith("SIG"):
    os.kill(child, getattr(signal, how))
else:
    os.write(master, how.encode())
while see():
    pass
_, status = os.waitpid(child, 0)
print("exit", os.waitstatus_to_exitcode(status))
print("was quiet", not during[3] & termios.ECHO)
print("restored", termios.tcgetattr(master) == before)
print("cursor", shown.rstrip().endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l"))
