# The service. Job containers are siblings of this one, started through the Docker socket.
FROM python:3.11-slim AS page
WORKDIR /src
COPY requirements/node.txt requirements/
COPY scripts scripts
COPY ui ui
RUN python -m venv .venv && scripts/build-ui.sh .venv

FROM python:3.11-slim
# The docker command builds the worker images through the socket, at their first use. Newer Debian has it by itself.
RUN apt-get update \
    && (apt-get install -y --no-install-recommends docker-cli || apt-get install -y --no-install-recommends docker.io) \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/server.txt requirements/
RUN pip install --no-cache-dir -r requirements/server.txt
COPY . .
COPY --from=page /src/api/static api/static
RUN pip install --no-cache-dir --no-deps . && rm -rf /src/*
WORKDIR /data
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["schedulearn"]
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
