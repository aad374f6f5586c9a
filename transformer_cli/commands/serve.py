"""`tfm serve`: a server with LibreTranslate's API and a web page."""

import logging
import os
import re
import signal
import socket
import sys
import threading
from typing import Annotated

import typer

from transformer_cli.commands import options, streams
from transformer_cli.errors import Interrupted
from transformer_cli.system import signals

SWITCH_INTERVAL_S = 0.001  # how long a thread that parses a long text keeps the interpreter from others; not 5 ms

log = logging.getLogger(__name__)


def serve(
    run_arguments: options.RunArguments = None,
    run: options.SeparateRuns = None,
    host: Annotated[str, typer.Option(
        "--host", metavar="ADDRESS", help="The address to listen on; 0.0.0.0 listens on every network of this "
        "machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(
        "--port", metavar="N", min=0, max=65535, help="The port to listen on; 0 lets the system choose one.")] = 5000,
    device: options.Device = "auto",
    api_key: Annotated[str | None, typer.Option(
        "--api-key", metavar="KEY", envvar="TFM_API_KEY", help="The key that requests must send as api_key. Better set "
        "the variable: other users can see the options of a running command.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(
        "--allow-host", metavar="NAME", show_default="localhost, IP addresses, --host and this machine's name",
        help="A host name by which clients address this server, such as tr.example.org; * allows any. "
        "Repeatable.")] = None,
    cors_origin: Annotated[list[str] | None, typer.Option(
        "--cors-origin", metavar="URL", show_default="none", help="Allow web pages of this origin to use the server, "
        "such as https://example.org. Repeatable.")] = None,
    max_document: Annotated[int, typer.Option(
        "--max-document", metavar="MIB", min=1, max=32, help="The largest document that clients may send, in "
        "MiB.")] = 2,
    glossary: options.Glossary = None,
    protect_pattern: options.ProtectPattern = "",
) -> None:  # fmt: skip
    """Serve translations over HTTP, with an API and a web page.

    The API is LibreTranslate's; the page is at /. Each run serves one language pair. On SIGHUP the server reloads its
    runs without losing a request.
    """
    if api_key is None and "TFM_API_KEY" in os.environ:  # typer ignores an empty variable
        api_key = ""
    if api_key is not None and not options.require_utf8(api_key, "--api-key").strip():
        raise typer.BadParameter("--api-key is empty; leave it out (and TFM_API_KEY, too) to allow everyone")
    for name in allow_host or ():
        if not re.fullmatch(r"\*|[^/:?#\s]+", name):
            raise typer.BadParameter(f"--allow-host {name!r} is not * or a name like tr.example.org")
    for origin in cors_origin or ():
        if not re.fullmatch(r"\*|https?://[^/?#\s]+", origin):  # as browsers send it; nothing else would ever match
            raise typer.BadParameter(f"--cors-origin {origin!r} is not * or an address like https://example.org")
    from transformer_cli.adapters.serve.middleware import is_local_address
    from transformer_cli.adapters.serve.server import Server, bind, notify_systemd, url_of

    # before models are loaded, which takes long
    with bind(host, port) as bound, signals.collect_hangups() as reload_requests:
        from transformer_cli.adapters.serve.app import create_app, freeze_memory
        from transformer_cli.adapters.serve.request_bodies import Limits
        from transformer_cli.api import Translator, read_glossary
        from transformer_cli.compute.threads import count_threads
        from transformer_cli.runs.run import Run

        def open_runs() -> list[Translator]:
            opened = []
            for opened_run in map(Run.open, options.find_runs(run_arguments, run)):
                data, translator = opened_run.config.data, Translator(opened_run, device)
                translator = translator.with_options(
                    glossary=read_glossary(glossary, data),
                    protect_pattern=options.require_utf8(protect_pattern, "--protect-pattern"),
                )
                translator.translate(["a"])  # the first call takes seconds, which no client should wait for
                log.info("%s→%s: %s", data.source, data.target, opened_run.folder)
                opened.append(translator)
            return opened

        translators = open_runs()
        n_workers = count_threads() if all(each.engine.is_on_cpu for each in translators) else 1
        app = create_app(
            translators,
            n_workers=n_workers,
            api_key=api_key,
            hosts={host, socket.gethostname(), *(allow_host or ())},
            cors_origins=cors_origin or (),
            limits=Limits(file_bytes=max_document << 20),
        )
        service = app.state.service
        reloading = threading.Thread(target=service.reload_loop, args=(reload_requests, open_runs), daemon=True)
        if api_key is None and not is_local_address(bound.getsockname()[0]):
            log.warning("everyone who can reach %s can use it, since there is no --api-key", url_of(bound))
        server = Server(app, bound)
        freeze_memory()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        log.info("serving at %s, %d at a time; Ctrl-C ends", url_of(bound), n_workers)
        streams.make_stderr_nonblocking()
        reloading.start()
        notify_systemd()
        number = server.run_until_signal()
        reload_requests.put(False)
        reloading.join()
        if number is not None:
            lost = f"requests without an answer: {service.n_unanswered}"
            left = lost if service.n_unanswered else "all requests were answered"
            raise Interrupted(f"stopped by {signal.Signals(number).name}; {left}", number)
