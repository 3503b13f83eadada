"""A library file of a user: copies of built-in allocators, and allocators with faults."""

# mypy: ignore-errors

from pyxsim.plugins import allocators


class Separable:
    """Round-robin arbiters at inputs and outputs, with pointers that move past matches of the first iteration."""

    inputs_first = False

    def __init__(self, context):
        self.context = context
        self.pointers = {"input": [0] * context.inputs, "output": [0] * context.outputs}

    def picks(self, requests, port):
        other, ports = ("output", self.context.outputs) if port == "input" else ("input", self.context.inputs)

        def key(request):
            return request.rank, (getattr(request, other) - self.pointers[port][getattr(request, port)]) % ports

        return [
            min((r for r in requests if getattr(r, port) == number), key=key)
            for number in {getattr(r, port) for r in requests}
        ]

    def allocate(self, requests):
        matched = []
        sides = ("input", "output") if self.inputs_first else ("output", "input")
        for iteration in range(self.context.iterations):
            inputs, outputs = {r.input for r in matched}, {r.output for r in matched}
            left = [r for r in requests if r.input not in inputs and r.output not in outputs]
            found = self.picks(self.picks(left, sides[0]), sides[1])
            for r in found:
                if iteration == 0 and not r.wasted:
                    self.pointers["output"][r.output] = (r.input + 1) % self.context.inputs
                    self.pointers["input"][r.input] = (r.output + 1) % self.context.outputs
            matched += found
        return matched


@allocators.register("my-islip", iterations=8)
class Islip(Separable):
    """iSLIP."""


@allocators.register("my-input-first")
class InputFirst(Separable):
    """Separable, input first."""

    inputs_first = True


@allocators.register("my-age", by_age=True, stateless=True)
class Age:
    """By age."""

    def __init__(self, context):
        pass

    def allocate(self, requests):
        matched = []
        for r in sorted(requests, key=lambda r: (r.rank, r.input, r.output)):
            if all(r.input != m.input and r.output != m.output for m in matched):
                matched.append(r)
        return matched


@allocators.register("random")
class Random(Age):
    """One request, at random."""

    def __init__(self, context):
        self.random = context.random

    def allocate(self, requests):
        return [self.random.choice(requests)]


@allocators.register("not-picklable")
class NotPicklable(Age):
    """With an attribute that does not pickle."""

    def __init__(self, context):
        self.key = lambda: 0


@allocators.register("fails")
class Fails(Age):
    """With an error in the code."""

    def allocate(self, requests):
        return [requests[0], 1 // 0]


@allocators.register("other")
class Other(Age):
    """Grants what was not requested."""

    def allocate(self, requests):
        return [requests[0]._replace(output=99)]


@allocators.register("twice")
class Twice(Age):
    """Grants two requests of one port."""

    def allocate(self, requests):
        return [requests[0], requests[0]]


@allocators.register("nothing")
class Nothing(Age):
    """Returns no list."""

    def allocate(self, requests):
        return None


@allocators.register("starves")
class Starves(Age):
    """Grants nothing."""

    def allocate(self, requests):
        return []


@allocators.register("no-constructor")
class NoConstructor:
    """Takes no context."""


@allocators.register("only-sa", stages=("sa",))
class OnlySa(Age):
    """Not for VA."""


@allocators.register("pairs")
class Pairs(Age):
    """Returns pairs, not requests."""

    def allocate(self, requests):
        return [(r.input, r.output) for r in requests]


@allocators.register("array")
class Array(Age):
    """Returns an array."""

    def allocate(self, requests):
        import numpy as np

        return np.array([[r.input, r.output] for r in requests])
