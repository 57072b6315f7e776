"""How the daemon is found, and who is let in. As the commands of `mainspring` do it."""

import os

from ..programs import TOKEN, equal, expect
from .register import case


def write(folder: str, name: str, text: str, mode: int = 0o600) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def empty_folder(scene, name: str) -> str:
    folder = os.path.join(scene.folder, name)
    os.mkdir(folder, 0o700)
    return folder


def works(client) -> None:
    equal(client.ok("query", type="Syscall.Ping", data="here"), "here", "an answer")


@case()
def by_what_the_program_says(scene):
    daemon = scene.daemon
    nowhere = {"MAINSPRING_SOCKET": "/nowhere/at/all.sock"}
    works(scene.client(environment=nowhere, socket=daemon.socket))
    works(scene.client(environment=nowhere, tcp=f"127.0.0.1:{daemon.port}", token=TOKEN))
    path = write(scene.folder, "token", TOKEN + "\n")
    works(scene.client(environment=nowhere, tcp=f"localhost:{daemon.port}", tokenFile=path))


@case()
def by_the_environment(scene):
    daemon = scene.daemon
    works(scene.client(environment={"MAINSPRING_SOCKET": daemon.socket}))
    place = f"127.0.0.1:{daemon.port}"
    works(scene.client(environment={"MAINSPRING_TCP": place, "MAINSPRING_TOKEN": TOKEN, "MAINSPRING_SOCKET": "/nowhere"}))
    path = write(scene.folder, "token", TOKEN)
    works(scene.client(environment={"MAINSPRING_TCP": place, "MAINSPRING_TOKEN_FILE": path}))


@case()
def by_the_configuration_of_the_folder(scene):
    daemon = scene.daemon
    folder = empty_folder(scene, "unix")
    tcp = f'[[listen]]\ntcp = "127.0.0.1:{daemon.port}"\ntokens = [{{ name = "suite", token = "{TOKEN}" }}]\n'
    write(folder, "mainspring.toml", f"# a comment\nmanifests = []\n\n{tcp}\n[[listen]]\nunix = '../app.sock' # beside it\n\n[log]\nlevel = \"info\"\n")
    works(scene.client(environment={}, folder=folder))
    folder = empty_folder(scene, "tcp")
    write(folder, "mainspring.toml", tcp)
    works(scene.client(environment={}, folder=folder))
    folder = empty_folder(scene, "tcp-with-file")
    write(folder, "secret", TOKEN + "\n")
    write(folder, "mainspring.toml", f'listen = [{{ tcp = "127.0.0.1:{daemon.port}", tokens = [\n  {{ name = "suite", token_file = "secret" }},\n] }}]\n')
    works(scene.client(environment={}, folder=folder))


@case()
def by_the_users_own_socket(scene):
    daemon = scene.daemon
    folder = empty_folder(scene, "runtime")
    os.mkdir(os.path.join(folder, "mainspring"), 0o700)
    os.symlink(daemon.socket, os.path.join(folder, "mainspring", "mainspring.sock"))
    works(scene.client(environment={"XDG_RUNTIME_DIR": folder}, folder=empty_folder(scene, "work")))


@case()
def a_configuration_with_a_fault_does_not_lead_to_another_daemon(scene):
    folder = empty_folder(scene, "faulty")
    write(folder, "mainspring.toml", "[[listen]\nunix = ")
    client = scene.client(connect=False, environment={"XDG_RUNTIME_DIR": scene.folder}, folder=folder)
    error = client.error("connect")
    equal(error["kind"], "connect", "the error")
    expect("mainspring.toml" in error["message"], f"the file is not named: {error}")


@case()
def without_a_daemon_the_error_says_so(scene):
    client = scene.client(connect=False, environment={})
    error = client.error("connect", socket=os.path.join(scene.folder, "none.sock"))
    equal(error["kind"], "connect", "the error")
    expect("none.sock" in error["message"], f"the socket is not named: {error}")
    equal(client.error("connect", tcp="not a place", token=TOKEN)["kind"], "connect", "no place at all")
    equal(client.error("connect", tcp="192.0.2.1:7700", token=TOKEN)["kind"], "connect", "a place that is not this machine")


@case()
def a_wrong_token_and_none_are_refused(scene):
    client = scene.client(connect=False, environment={})
    place = f"127.0.0.1:{scene.daemon.port}"
    error = client.error("connect", tcp=place, token="not the token, but long enough")
    equal(error["kind"], "connect", "a wrong token")
    expect("not the token, but" not in error["message"], "the token is in the error")
    equal(client.error("connect", tcp=place)["kind"], "connect", "no token")
    path = write(scene.folder, "open", TOKEN, 0o644)
    equal(client.error("connect", tcp=place, tokenFile=path)["kind"], "connect", "a token that others may read")
    works_after = client.ok("connect", tcp=place, token=TOKEN)
    equal(works_after, None, "the right one")


@case()
def what_is_no_daemon_is_told_apart(scene):
    import socket
    import threading

    server = socket.create_server(("127.0.0.1", 0))
    def answer():
        peer, _ = server.accept()
        peer.recv(1000)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.close()
    threading.Thread(target=answer, daemon=True).start()
    client = scene.client(connect=False, environment={})
    error = client.error("connect", tcp=f"127.0.0.1:{server.getsockname()[1]}", token=TOKEN)
    server.close()
    equal(error["kind"], "connect", "the error")
