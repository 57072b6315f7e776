"""How a case says that it is one."""

from ..runner import Case

ALL: list[Case] = []


def case(per_transport: bool = False):
    """Makes a function a case, named as the function is."""

    def register(function):
        ALL.append(Case(function.__name__.replace("_", " "), function, per_transport))
        return function

    return register
