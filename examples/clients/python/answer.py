"""Answers the prompts of searches with the provider `external`: `answer.py HOST:PORT [COUNT]`; the address is the generator's.

A stand-in for an agent or a person: its kernel is the PyTorch program itself.
"""

import re
import sys

from google.protobuf.duration_pb2 import Duration

from adaexplore.client.generator import GeneratorClient
from adaexplore.client.security import security_from
from adaexplore.generator.v1 import generator_pb2 as pb
from adaexplore.runtime.errors import FailedPreconditionError


def answer(prompt: str, token: str) -> str:
    """Return what a model would write: a sentence and the whole file."""
    program = re.search(r"The PyTorch program:\nBEGIN DATA\n(.*?)\nEND DATA", prompt, re.DOTALL)
    source = re.sub(r"\bModel\b", "ModelNew", program[1] if program else "")
    return f"PyTorch's own kernels.\n```python\n{source}\n\nANSWER = {token!r}\n```\n"


def main(address: str, count: int) -> None:
    """Answer so many prompts, then end."""
    with GeneratorClient(address, security_from()) as generator:
        while count > 0:
            claim = pb.ClaimRequestRequest(worker="answer.py", lease=Duration(seconds=60), wait=Duration(seconds=20))
            request = generator.claim_request(claim, timeout_s=60).request
            text = answer("\n".join(message.content for message in request.messages), request.lease_token)
            try:
                if request.lease_token:
                    generator.submit_reply(pb.SubmitReplyRequest(lease_token=request.lease_token, text=text), timeout_s=30)
                    count -= 1
            except FailedPreconditionError as error:
                print(error.message, file=sys.stderr)  # the search has gone on without this answer


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize)
