"""The machines where longdouble is float64 (Windows, macOS on ARM), simulated: a plug-in of pytest, for any tests.

    python -m pytest -p tests.narrow tests/gradcheck tests/symmetry tests/verify/test_tolerances.py

What such a machine cannot give is expected to fail, by patterns of the names of its tests: digits beyond float64's,
differences in a wider precision, a test's own reference in longdouble. A right answer that is refused is not among it.
"""

import re
import sys

import numpy as np
import pytest

assert "refnp" not in sys.modules, "longdouble must be narrow before refnp is imported"
np.longdouble, np.clongdouble = np.float64, np.complex128
CANNOT = {
    "digits that differences of float64 do not have": (
        r"test_right_hessians_have_thirteen_digits\[\d-(tanh|softmax|layer_norm)\]",
        "test_rows_of_every_order_and_dtype",
        r"test_a_gradient_of_pure_rounding_is_no_error\[1-float64\]",
        "test_a_badly_conditioned_point_is_no_error",
        "test_an_error_in_a_tiny_gradient_beside_large_ones_is_caught",
        "test_bounds_of_gradients_come_with_a_cotangent",
        "test_the_bounds_are_not_vacuous",
        "test_plain_code_is_within_the_bound",
    ),
    "a second opinion, or a third precision beside float32 and float64": (
        r"test_every_method_gives_the_same_verdict\[longdouble-",
        "test_a_failure_names_everything",
        "test_at_second_order_kinks_are_left_out_and_counted",
        "test_a_claim_that_fails_at_a_pair",
        "test_what_is_finite_on_one_side_alone_in_float64_is_a_violation",
        "test_every_option_is_used",
        "test_discrepancies_of_a_true_claim_shrink_with_the_unit_roundoff",
        "test_discrepancies_of_a_false_claim_do_not",
        "test_the_precisions_of_a_function_are_found",
        "test_constants_that_were_rounded_to_float64_refute_nothing",
        r"test_constants_that_were_rounded_to_float32_refute_nothing\[a default-4\]",
        "test_token_ids_in_the_precision_that_is_asked",
        "test_nearest_neighbours_of_evenly_spaced_points_jump",
        "test_where_most_pairs_jump_nothing_holds",
        r"test_true_claims_hold\[variance about a million\]",
    ),
    "a type that is no other than float64": ("_computes_in_the_precision_of_its_input",),
    "a reference of the test's own in longdouble": ("test_complex_log1p_near_zero_and_far_away",),
}


def pytest_collection_modifyitems(items):
    for item in items:
        for reason, names in CANNOT.items():
            if any(re.search(name, item.name) for name in names):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
