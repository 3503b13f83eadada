from pyxsim.network.ethernet.transport import Transport

class UserTransport(Transport):
    def __init__(self, name: str, user: object, file: str | None) -> None: ...
