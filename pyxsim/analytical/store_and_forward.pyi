from pyxsim.analytical.carrier import OnRoutes
from pyxsim.analytical.rule import Rule

class StoreAndForward(OnRoutes):
    rule: Rule
    def __init__(self, rule: Rule, flit: int) -> None: ...
