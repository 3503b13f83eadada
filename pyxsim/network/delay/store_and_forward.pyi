from pyxsim.network.delay.carrier import OnRoutes
from pyxsim.network.delay.rule import Rule

class StoreAndForward(OnRoutes):
    rule: Rule
    def __init__(self, rule: Rule, flit: int) -> None: ...
