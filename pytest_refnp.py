"""What refnp adds to pytest where it is installed: a test that is marked runs once for each case of a layer.

@pytest.mark.refnp("softmax")
def test_softmax(case):
    case.check(mypackage.softmax)

It stands outside of the package because pytest imports it in every project: refnp is imported for marked tests alone.
"""


def pytest_configure(config):
    config.addinivalue_line("markers", "refnp(layer): run once for each case of the layer, which is given as `case`")


def pytest_generate_tests(metafunc):
    for mark in metafunc.definition.iter_markers("refnp"):
        from refnp.testing import cases

        metafunc.parametrize("case", cases(*mark.args), ids=str)
