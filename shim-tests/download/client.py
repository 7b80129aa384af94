"""Streams a download through requests + pyOpenSSL in chunks of a given size, as in the bug report that started this.
usage: client.py URL CA CHUNK_BYTES. Prints megabytes per second."""
import sys
import time
import warnings

warnings.simplefilter("ignore")
from urllib3.contrib import pyopenssl

pyopenssl.inject_into_urllib3()
import requests

url, ca, chunk = sys.argv[1], sys.argv[2], int(sys.argv[3])
began = time.perf_counter()
response = requests.get(url, stream=True, verify=ca)
received = sum(len(part) for part in response.iter_content(chunk))
took = time.perf_counter() - began
assert received == int(response.headers["Content-Length"]), received
print(f"{received / 1e6 / took:.1f}")
