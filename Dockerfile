# The service. Job containers are siblings of this one, started through the Docker socket.
#
# In a network of its own: --build-arg HTTP_PROXY, HTTPS_PROXY, NO_PROXY, PIP_INDEX_URL, PIP_EXTRA_INDEX_URL,
# NPM_CONFIG_REGISTRY, and CA_CERTIFICATES (the text of certificates to trust, in PEM form). Of these only the
# certificates stay in the image.
ARG BASE=python:3.11-slim

FROM ${BASE} AS base
ARG CA_CERTIFICATES
RUN if [ -n "$CA_CERTIFICATES" ]; then \
        printf '%s\n' "$CA_CERTIFICATES" > /usr/local/share/ca-certificates/site.crt && update-ca-certificates; fi
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src

# What changes seldom comes first: Docker keeps those layers.
FROM base AS page
ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG NPM_CONFIG_REGISTRY
COPY requirements/node.txt requirements/
COPY scripts/node.sh scripts/
COPY ui/package.json ui/package-lock.json ui/
RUN python -m venv .venv && cd ui && ../scripts/node.sh ../.venv npm ci --no-audit --no-fund --loglevel=error
COPY ui ui
RUN cd ui && ../scripts/node.sh ../.venv npm run --silent bundle

FROM base AS server
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY requirements/server.txt requirements/
RUN python -m venv /opt/schedulearn && /opt/schedulearn/bin/pip install --quiet -r requirements/server.txt
COPY pyproject.toml setup.py README.md ./
COPY scripts/unasync.py scripts/
COPY src src
COPY api api
COPY scheduler scheduler
COPY features features
COPY metrics metrics
COPY worker_images worker_images
COPY --from=page /src/api/static api/static
RUN /opt/schedulearn/bin/pip install --quiet --no-deps .
# The packages' own tests: 60 MB.
RUN find /opt/schedulearn -type d -name tests -prune -exec rm -rf {} +

# The docker command builds the worker images through the socket, at their first use. Only older Debian has no package
# with it alone: there it comes with an engine, 400 MB that nobody needs here.
FROM base AS docker
RUN apt-get update \
    && (apt-get install -y --no-install-recommends docker-cli || apt-get install -y --no-install-recommends docker.io) \
    && install -D "$(command -v docker)" /out/docker

FROM base
# Hosts at ssh:// addresses are spoken to by ssh.
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=docker /out/docker /usr/local/bin/
COPY --from=server /opt/schedulearn /opt/schedulearn
ENV PATH=/opt/schedulearn/bin:$PATH
WORKDIR /data
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["schedulearn"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
