from adaexplore.cli.doctor import examine

from .conftest import gpus


def test_doctor_sees_every_gpu_of_the_host():
    assert len(examine({})["gpus"]) == len(gpus())
