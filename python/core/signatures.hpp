#pragma once

#include "python.hpp"

/// Parts of the signatures that the stub of the extension shows. They are macros, as nb::sig takes literals.
#define SINEW_OPTIONS                                                                           \
  "timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, " \
  "codec: Codec | None = None, label: str | None = None, after: int | None = None"
#define SINEW_OPERATOR "op: Op = 'sum'"
#define SINEW_FACTOR "factor: float = 1.0"

/// The same of messages, barriers and plans.
#define SINEW_MESSAGE_OPTIONS \
  "timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None"
#define SINEW_MESSAGE_ARGUMENTS \
  nb::kw_only(), nb::arg("timeout") = nb::none(), nb::arg("label") = nb::none(), nb::arg("after") = nb::none()

/// The keywords of every call.
#define SINEW_OPTION_ARGUMENTS                                                                         \
  nb::arg("timeout") = nb::none(), nb::arg("determinism") = nb::none(), nb::arg("codec") = nb::none(), \
  nb::arg("label") = nb::none(), nb::arg("after") = nb::none()

/// Binds NAME, which waits, and start_NAME, which returns a Work, to the class `c`.
#define SINEW_BOTH(name, arguments, doc, ...)                                                                   \
  c.def(#name, &name<Now>, __VA_ARGS__, nb::sig("def " #name "(self, " arguments ") -> None"), doc);            \
  c.def("start_" #name, &name<Later>, __VA_ARGS__, nb::sig("def start_" #name "(self, " arguments ") -> Work"), \
        "Starts " #name "() and returns its Work.")
