"""arcops' measuring beside vLLM's own (`vllm bench serve`): the same work, on the same server, in turn."""
