# tfm serve for exported models, without torch; docs/operating.md, "A container", runs it.
ARG BASE=python:3.12-slim
FROM $BASE
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --no-deps . && \
    pip install --no-cache-dir --no-warn-conflicts -r "$(python -m transformer_cli.runtime)"
USER 10001
WORKDIR /models
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:5000/health')"]
ENTRYPOINT ["tfm", "serve", "--host", "0.0.0.0"]
