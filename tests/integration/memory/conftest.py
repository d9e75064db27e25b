import pytest
from integration.memory.calls import serving


@pytest.fixture
async def client(tmp_path):
    async with serving(tmp_path) as opened:
        yield opened
