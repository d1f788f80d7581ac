# The gateway in a container: `docker build -t holdgate .`; docs/install.md says how to run it.
# The first stage installs into /opt/holdgate, the second has no pip, no compiler and no source tree.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/holdgate
# The locked packages first: they change less often than the code, so this layer is kept.
COPY requirements-postgres.lock ./
RUN python -m pip --python /opt/holdgate/bin/python install --no-cache-dir --only-binary :all: --require-hashes -r requirements-postgres.lock
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY gateway ./gateway
RUN python -m pip --python /opt/holdgate/bin/python install --no-cache-dir --no-deps .

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="holdgate" \
      org.opencontainers.image.description="A streaming LLM gateway that gives models time" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/holdgate /opt/holdgate
# A number, not a name: it needs no entry in /etc/passwd, and orchestrators can see that it is not root.
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/holdgate && install -d -m 0755 /etc/holdgate
# Inside the container it listens on every address, so it starts only with keys (docs/security.md).
ENV PATH=/opt/holdgate/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/holdgate \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOLDGATE_SERVER__HOST=0.0.0.0 \
    HOLDGATE_SERVER__PORT=8787 \
    HOLDGATE_SESSION_DIR=/var/lib/holdgate/sessions
# All state is here; the rest of the file system may be read-only.
VOLUME ["/var/lib/holdgate"]
# A holdgate.toml that is mounted here is found without an option.
WORKDIR /etc/holdgate
USER 10001:10001
EXPOSE 8787
# An answer below 500 is healthy: with server.hosts set, a request to 127.0.0.1 is refused with 403.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 CMD ["/opt/holdgate/bin/python", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('127.0.0.1', int(os.environ['HOLDGATE_SERVER__PORT']), timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status >= 500)"]
# The exec form: SIGTERM reaches the gateway itself, which drains.
ENTRYPOINT ["/opt/holdgate/bin/holdgate"]
CMD ["serve"]
