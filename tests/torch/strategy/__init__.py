"""The cases of strategies.py, by kind. A case is a function of one Place that returns what is compared."""

import dataclasses

import ranks
import torch

CASES = []

# Largest relative difference between two backends where a sum of floats may be taken in any order.
TOLERANCE = {"f32": 1e-6, "f16": 2.0**-9, "bf16": 2.0**-6}


@dataclasses.dataclass(frozen=True)
class Case:
    """One case. `sums` names the float format whose sums over ranks may differ by their order: "f32", "f16" or "bf16".
    "none": the result has no such sum, or the data makes each order give the same; it is compared bit by bit.
    With two ranks there is only one order, so every result is compared bit by bit."""

    name: str
    body: object
    sums: str
    least_ranks: int
    multiple_of: int
    cpu_only: str  # why the case does not run on a device; empty: it does

    def tolerance(self, size):
        return 0.0 if self.sums == "none" or size == 2 else TOLERANCE[self.sums]

    def skipped(self, size):
        if self.cpu_only and ranks.DEVICE != "cpu":
            return f"on the CPU only: {self.cpu_only}"
        if size < self.least_ranks:
            return f"needs {self.least_ranks} ranks"
        return f"needs a multiple of {self.multiple_of} ranks" if size % self.multiple_of else ""


def case(sums, least_ranks=2, multiple_of=1, cpu_only=""):
    def add(body):
        CASES.append(Case(body.__name__, body, sums, least_ranks, multiple_of, cpu_only))
        return body

    return add


def generator(seed):
    return torch.Generator(device=ranks.DEVICE).manual_seed(seed)
