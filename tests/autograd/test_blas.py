"""While blocks run, the BLAS has one thread; before and after, as many as it had."""

import pytest

from refnp.autograd import blas, blocks

controls = blas._controls()
needs_openblas = pytest.mark.skipif(controls is None, reason="NumPy's BLAS is not OpenBLAS")


@pytest.fixture
def two_threads():
    get, put = controls
    before = get()
    put(2)
    yield get
    put(before)


@needs_openblas
def test_one_thread_inside_and_as_before_outside(two_threads):
    with blas.one_blas_thread():
        assert two_threads() == 1
        with blas.one_blas_thread():
            assert two_threads() == 1
        assert two_threads() == 1
    assert two_threads() == 2


@needs_openblas
def test_restored_after_an_error(two_threads):
    with pytest.raises(KeyError), blas.one_blas_thread():
        raise KeyError
    assert two_threads() == 2


@needs_openblas
@pytest.mark.parametrize(("pieces", "seen"), [(1, 2), (2, 1), (5, 1)])
def test_several_blocks_have_one_thread_each(two_threads, pieces, seen):
    found = []
    blocks.run_all(lambda i: found.append(two_threads()), pieces)
    assert found == [seen] * pieces


def test_another_blas_is_left_alone(monkeypatch):
    monkeypatch.setattr(blas, "_controls", lambda: None)
    with blas.one_blas_thread():
        pass
    assert blas._inside == 0
