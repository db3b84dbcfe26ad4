"""Vectors of texts, by embedding models of a provider or of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roundel.llm.clients import client_provider
from roundel.llm.resource_pool import ResourceLease
from roundel.nodes.prices import EmbeddingMeter, Prices
from roundel.nodes.services import NodeError
from roundel.workflow.memory_config import DIMENSIONS, LOCAL_PROVIDER, Embedding
from roundel.workflow.model_profile import Profile
from roundel.workflow.secrets import SecretMasker


class ClientEmbedder:
    """Makes vectors with a model of a provider or of this machine. `RunMemory` creates it when a run is
    prepared, so that the time limit on reading a memory does not have to cover imports.

    A missing package or key is not raised then but by `embed`: memory must not fail a run (decision 11),
    and the error becomes an event of the agent that reads it."""

    def __init__(
        self, config: Embedding, secrets: SecretMasker, prices: Prices, lease: ResourceLease
    ) -> None:
        self._config, self._secrets, self._prices = config, secrets, prices
        self._lease = lease
        size = config.params.get(DIMENSIONS)
        self._settings: Any = {DIMENSIONS: size} if size else None
        self.name = ":".join(map(str, filter(None, (config.provider, config.model, size))))
        self._model: Any = None
        self._problem = ""
        try:
            self._model = self._make_model()
        except NodeError as error:
            self._problem = str(error)

    async def embed(
        self, texts: Sequence[str], meter: EmbeddingMeter, *, question: bool = False
    ) -> list[list[float]]:
        """The vectors of texts. `question` marks a query, for models that embed queries and documents
        differently. NodeError says what has to be installed or set."""
        if self._model is None:
            raise NodeError(self._problem)
        kind = "query" if question else "document"
        try:
            result = await self._model.embed(list(texts), input_type=kind, settings=self._settings)
        except Exception as error:
            raise NodeError(f"{self.name} gave no vectors: {self._secrets.mask(str(error))}") from None
        self._record_usage(result.usage, meter)
        return [list(vector) for vector in result.embeddings]

    def _record_usage(self, usage: Any, meter: EmbeddingMeter) -> None:
        config = self._config
        cost = (
            0.0
            if config.provider == LOCAL_PROVIDER
            else self._prices.cost(config.provider, config.model, usage)
        )
        meter.add(self.name, usage.input_tokens, cost)

    def _make_model(self) -> Any:
        config = self._config
        if config.provider == LOCAL_PROVIDER:
            return self._make_local_model()
        profile = Profile(
            provider=config.provider, name=config.model, base_url=config.base_url, api_key=config.api_key
        )
        provider, client = client_provider(profile, self._secrets, self._lease)
        from pydantic_ai.embeddings import infer_embedding_model

        try:
            return infer_embedding_model(f"{provider}:{config.model}", provider_factory=lambda _name: client)
        except Exception as error:
            raise NodeError(f"{self.name} cannot be used: {self._secrets.mask(str(error))}") from None

    def _make_local_model(self) -> Any:
        try:
            from pydantic_ai.embeddings.sentence_transformers import SentenceTransformerEmbeddingModel
        except ImportError:
            raise NodeError(
                f"{self.name} cannot be used: vectors of this machine need a package, "
                'pip install "pydantic-ai-slim[sentence-transformers]"'
            ) from None
        return SentenceTransformerEmbeddingModel(self._config.model)
