"""A schedule at small sizes as a picture: instances, their order, who runs them, what they read and store."""

from tiramisu_py.view.pictures.picture_page import Picture, side_by_side
from tiramisu_py.view.pictures.pictured import pictured
from tiramisu_py.view.pictures.scene import Scene

__all__ = ["Picture", "Scene", "pictured", "side_by_side"]
