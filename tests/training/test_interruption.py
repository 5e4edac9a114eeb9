"""Ctrl-C: the first is noted, the second stops; and everything is as before afterwards."""

import os
import signal
import threading
import time

import pytest

from refnp.signals import interruptible

if threading.current_thread() is not threading.main_thread():
    pytest.skip("signals come to the main thread", allow_module_level=True)


pytestmark = pytest.mark.usefixtures("ctrl_c")


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0)  # Python runs the handler before it goes on


def test_the_first_is_noted():
    with interruptible() as interrupted:
        assert not interrupted()
        press()
        assert interrupted()


def test_the_second_stops():
    with interruptible():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_the_first_stops_again():
    with interruptible():
        press()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_a_handler_of_somebody_else_stays():
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        with interruptible() as interrupted:
            press()
            assert not interrupted()
        assert pressed == [1]
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_in_another_thread_it_does_nothing():
    seen = []

    def work():
        with interruptible() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
