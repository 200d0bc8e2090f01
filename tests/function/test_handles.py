"""What handles are told that they cannot do."""

import pytest

import tiramisu_py as tm


@pytest.mark.parametrize("command", ["slide", "fold", "split", "store_nontemporal", "partition", "compute_at"])
def test_commands_to_an_input_say_what_they_are_for(command: str) -> None:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[N])
    image = f.input("image", tm.float32, [N])
    with pytest.raises(tm.CommandError, match=f"image is an input and has no loops: {command} is for computations"):
        getattr(image, command)(i)


def test_an_input_has_no_other_names() -> None:
    (N,) = tm.params("N")
    image = tm.Function("f", params=[N]).input("image", tm.float32, [N])
    assert not hasattr(image, "colour")
    assert not hasattr(image, "send")
