"""arcops runs one vLLM server on a workstation's GPU and keeps it honest."""

__version__ = "0.1.0"
