# The package as the README installs it, with compiled kernels.
#
#     docker build -t gpusched-env .
#     docker run --rm gpusched-env compare --scenario tiny-v1 --schedulers fifo,srtf
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1
WORKDIR /opt/gpusched-env
COPY pyproject.toml README.md LICENSE constraints.txt train.py ./
COPY agents agents
COPY baselines baselines
COPY traces traces
COPY gpusched_env gpusched_env
RUN pip install -c constraints.txt -e ".[train,plot]"

# Machine code is read only from files of this user or of root.
RUN useradd --create-home gpusched
USER gpusched
WORKDIR /home/gpusched
RUN gpusched warmup
ENTRYPOINT ["gpusched"]
CMD ["--help"]
