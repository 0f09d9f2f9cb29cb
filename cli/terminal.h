// What is known about the streams of this process: whether a person sees them, how wide they are,
// whether colour is wanted; and the one way to write to them. Any thread; no state.
#pragma once

#include <string>
#include <string_view>

#include "cli/common_options.h"

namespace muster {

enum class Stream { out, err };

bool is_terminal(Stream stream);
// Columns of the terminal, 80 when it does not say; read anew each time, so resizing is noticed.
int terminal_width(Stream stream);
// `auto`: on a terminal, unless NO_COLOR is set or TERM is `dumb`.
bool wants_color(ColorChoice choice, Stream stream);

// All bytes, however slow the reader. A reader that went away ends the process quietly, as SIGPIPE
// would; any other failure is told on stderr and ends it with 99: output must not be lost in
// silence.
void write_all(Stream stream, std::string_view bytes);

// `text` in a colour when `color`; the names are ours, the codes ANSI's.
enum class Ink { plain, red, yellow, green, blue, dim, bold };
std::string inked(std::string_view text, Ink ink, bool color);

// One line on stderr, `muster: ` before it.
void complain(std::string_view sentence, const CommonOptions& common);
// As `complain`, but silent with --only-show-errors.
void notice(std::string_view sentence, const CommonOptions& common);

}  // namespace muster
