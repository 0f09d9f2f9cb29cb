"""In the place of Ray's module: counts the nodes that the double of its program wrote down."""
import os


def init(**_):
    pass


def nodes():
    return [{"Alive": True} for _ in os.listdir(os.environ["RAY_DOUBLE"] + "/nodes")]
