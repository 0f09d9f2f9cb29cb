// What is known about the streams of this process: whether a person sees them, how wide they are,
// whether colour is wanted; and the one way to write to them. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "cli/terminal/common_options.h"

namespace muster {

enum class Stream { out, err };

// Called first: descriptors 0 to 2 that the caller closed are taken, so that no file or socket of
// ours gets their number. Reading 0 or writing 1 fails as before; what goes to 2 is dropped.
void hold_standard_descriptors();

bool are_one_file();  // output and errors
bool is_terminal(Stream stream);
// Columns of the terminal, 80 when it does not say; read anew each time, so resizing is noticed.
int terminal_width(Stream stream);
// Rows, 24 when it does not say.
int terminal_height(Stream stream);
// `auto`: on a terminal, unless NO_COLOR is set or TERM is `dumb`.
bool wants_color(ColorChoice choice, Stream stream);

// Whether lines can be redrawn in place there: a terminal, and not TERM=dumb.
bool can_redraw(Stream stream);

// All bytes, however slow the reader. A reader that went away ends the process quietly, as SIGPIPE
// would. Any other failure of stdout is told on stderr and ends it with 99: a result must not be
// lost in silence. Any other failure of stderr changes nothing: there is nowhere to tell it.
void write_all(Stream stream, std::string_view bytes);

// What is told besides when stdout fails: of what this process has begun and does not end with it.
void report_if_output_fails(std::string sentence);

// `text` in a colour when `color`; the names are ours, the codes ANSI's.
enum class Ink { plain, red, yellow, green, blue, dim, bold };
std::string inked(std::string_view text, Ink ink, bool color);

// One line on stderr, `muster: ` before it.
void print_error(std::string_view sentence, const CommonOptions& common);
// The same, and gives `code`, so that a verb can return with it.
int print_error(std::string_view sentence, int code, const CommonOptions& common);
// As `print_error`, but silent with --only-show-errors.
void notice(std::string_view sentence, const CommonOptions& common);

}  // namespace muster
