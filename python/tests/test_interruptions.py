"""KeyboardInterrupt and SystemExit that surface inside a hook reach the program."""

import os
import signal

import pytest
import torch

import plimsoll


class Optimizer(torch.optim.Optimizer):
    """Runs a function when its groups are looked up between `arm` and the step."""

    then = None

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @property
    def param_groups(self):
        if self.then is not None:
            then, self.then = self.then, None
            then()
        return self.__dict__["groups"]

    @param_groups.setter
    def param_groups(self, groups):
        self.__dict__["groups"] = groups

    def step(self, closure=None):
        assert self.then is None, "the hook before the step has looked the groups up"


class Stop(BaseException):
    pass


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def leave():
    raise SystemExit(3)


def stop():
    raise Stop


def fail():
    raise ValueError("of the lookup alone")


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_what_surfaces_in_a_hook_is_raised_by_the_step(mode, tmp_path):
    optimizer = Optimizer([torch.zeros(2, requires_grad=True)])
    lost = 0
    with plimsoll.record(tmp_path / "run.plim", adapter="libtorch", mode=mode):
        optimizer.step()
        for _ in range(100):
            for then, kind in ((interrupt, KeyboardInterrupt), (leave, SystemExit), (stop, Stop)):
                optimizer.then = then
                try:
                    optimizer.step()
                    lost += 1
                except kind:
                    pass
        optimizer.then = fail
        optimizer.step()
    assert lost == 0
