// `muster checkpoint …`: what there is to resume from, whether it is whole, what may be taken, and
// taking the weights elsewhere. Works on the files alone; no controller is needed.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "cli/checkpoint/report.h"
#include "cli/checkpoint/subject.h"
#include "cli/client/find.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/staging/content_hash.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/export/export.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

constexpr const char* checkpoint_group = "checkpoint";
constexpr const char* one_or_newest =
    "A checkpoint's directory; or a directory of them or a job, with @STEP or its newest one";

template <class Options, class Run, class DeclareOptions>
void verb(CommandLine& line, const std::string& name, const std::string& summary, Run run,
          DeclareOptions declare) {
  const VerbTexts texts{.name = name, .summary = summary, .azure_scope = false};
  line.verb_of<Options>(checkpoint_group, texts, run, declare);
}

// Those of other programs; where there are some of muster-train's, a resume looks no further.
int list_foreign(const std::string& typed, const ForeignSubject& subject,
                 const CommonOptions& common) {
  const auto found = foreign_checkpoints(subject.roots, subject.settings);
  return print_result(foreign_document(found),
                      found.empty() ? "" : foreign_table(found).text(common), common,
                      typed + " holds no checkpoints");
}

int list(const std::string& typed, const CommonOptions& common) {
  const Home home = Home::from_environment();
  if (const auto foreign = foreign_subject(home, typed)) {
    return list_foreign(typed, *foreign, common);
  }
  const auto subject = checkpoint_subject(home, typed);
  CheckpointLines known = checkpoint_lines(subject.root);
  if (!known.trouble.empty()) throw VerbEnd(internal_error, known.trouble);
  if (subject.name) {
    std::erase_if(known.lines, [&](const CheckpointLine& line) {
      return checkpoint_directory_name(line.name) != *subject.name;
    });
  }
  if (known.lines.empty()) {
    std::error_code failed;
    const auto root = std::filesystem::absolute(subject.root, failed);
    return list_foreign(subject.root, {{root.string()}}, common);
  }
  return print_result(lines_document(known.lines), lines_table(known.lines).text(common), common);
}

int show(const std::string& typed, const CommonOptions& common) {
  const auto subject = single_checkpoint(Home::from_environment(), typed);
  const auto manifest = read_manifest_alone(subject.path());
  if (!manifest) throw VerbEnd(no_such_job, subject.path() + ": " + manifest.reason());
  for (const CheckpointLine& line : checkpoint_lines(subject.root).lines) {
    if (line.path != subject.path()) continue;
    CommonOptions form = common;
    if (wants_table(common)) form.output = OutputFormat::yaml;
    return print_document(manifest_document(manifest.value(), line), form);
  }
  throw VerbEnd(no_such_job, subject.path() + ": is gone");
}

// What an operator decides about one checkpoint, and the sentence when it is done.
struct OperatorDeed {
  std::function<Checked<NoValue>(const CheckpointSubject&, const std::string& reason)> act;
  std::string done;
};

struct DeedOptions {
  std::string typed;
  std::string reason;
};

int decide(const OperatorDeed& deed, const DeedOptions& options, const CommonOptions& common) {
  const std::string& typed = options.typed;
  const auto subject = checkpoint_subject(Home::from_environment(), typed);
  if (!subject.name) {
    throw VerbEnd(no_such_job,
                  typed + ": name one checkpoint: " + typed + "@STEP, or its directory");
  }
  const auto done = deed.act(subject, options.reason);
  if (!done) throw VerbEnd(no_such_job, done.reason());
  notice(*subject.name + " " + deed.done, common);
  return wants_table(common) ? 0 : list(subject.path(), common);
}

enum class Reason { none, optional, required };

void add_deed(CommandLine& line, const std::string& name, const std::string& summary,
              Reason reason_is, const OperatorDeed& deed) {
  verb<DeedOptions>(
      line, name, summary,
      [=](const DeedOptions& options, const CommonOptions& common) {
        return decide(deed, options, common);
      },
      [=](Arguments& of, DeedOptions& options) {
        of.argument("DIR|JOB@STEP", options.typed,
                    "A checkpoint's directory, or a step of a directory or job");
        if (reason_is != Reason::none) {
          of.option("--reason", options.reason, "Reason, stored with the checkpoint");
        }
        if (reason_is == Reason::required) of.require("--reason");
      });
}

// ---- verify

struct VerifyOptions {
  std::string subject;
  bool all = false;
  std::optional<std::int64_t> threads;
};

using SteadyClock = std::chrono::steady_clock;

constexpr int not_good = 1;
// One reader per core, and not more than a disk has use for.
constexpr std::int64_t threads_limit = 8;
constexpr std::int64_t threads_asked_limit = 1024;

// The line that grows while bytes are read; nothing where it cannot be redrawn.
class ReadProgress {
 public:
  ReadProgress(std::uint64_t total, const CommonOptions& common)
      : total_(total), shown_(can_redraw(Stream::err) && !common.only_show_errors) {}

  void add(std::uint64_t bytes) {
    done_ += bytes;
    const auto now = SteadyClock::now();
    if (!shown_ || now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    write_all(Stream::err, "\rread " + bytes_text(done_) + " of " + bytes_text(total_) + "\x1b[K");
  }

  std::string summary() const {
    const std::chrono::duration<double> took = SteadyClock::now() - begin_;
    return "read " + bytes_text(done_) +
           printed(" in %.2fs, %.0f MB/s", took.count(),
                   static_cast<double>(done_) / 1e6 / std::max(took.count(), 1e-9));
  }

  void clear() const {
    if (shown_) write_all(Stream::err, "\r\x1b[K");
  }

 private:
  std::uint64_t total_;
  bool shown_;
  std::uint64_t done_ = 0;
  SteadyClock::time_point begin_ = SteadyClock::now();
  SteadyClock::time_point drawn_;
};

// The newest that was sealed, damaged or not: what somebody relies on who does not look.
bool is_relied_on(const CheckpointLine& line) {
  return line.reason.empty() || line.state == "CORRUPT";
}

std::vector<CheckpointLine> wanted_lines(const CheckpointSubject& subject, bool all) {
  CheckpointLines known = checkpoint_lines(subject.root);
  if (!known.trouble.empty()) throw VerbEnd(no_such_job, known.trouble);
  std::vector<CheckpointLine> wanted;
  for (const CheckpointLine& line : known.lines) {
    const std::string name = checkpoint_directory_name(line.name);
    const bool meant = subject.name ? *subject.name == name : all || is_relied_on(line);
    if (meant) wanted.push_back(line);
    if (meant && !all && !subject.name) break;
  }
  if (!wanted.empty()) return wanted;
  throw VerbEnd(no_such_job, subject.path() + ": there is no checkpoint to read");
}

std::uint64_t total_bytes(const std::vector<CheckpointLine>& lines) {
  std::uint64_t total = 0;
  for (const CheckpointLine& line : lines) total += line.facts ? line.facts->bytes : 0;
  return total;
}

unsigned thread_count(const VerifyOptions& options) {
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t wanted = options.threads.value_or(std::min(cores, threads_limit));
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, threads_asked_limit));
}

// 0: all that were asked for are good, 1: not.
int verify_checkpoints(const VerifyOptions& options, const CommonOptions& common) {
  const auto subject = checkpoint_subject(Home::from_environment(), options.subject);
  const auto lines = wanted_lines(subject, options.all);
  ReadProgress progress(total_bytes(lines), common);
  std::vector<CheckedCheckpoint> checked;
  for (const CheckpointLine& line : lines) {
    CheckedCheckpoint& one = checked.emplace_back();
    one.path = line.path;
    one.unsealed = line.state == "INCOMPLETE" && !subject.name && &line == &lines.front();
    if (one.unsealed) continue;
    one.verdict = verify_checkpoint(
        line.path, {thread_count(options), [&](std::uint64_t bytes) { progress.add(bytes); }});
  }
  progress.clear();
  const std::string text = checked_text(checked, wants_color(common.color, Stream::out));
  const int failed = print_result(checked_document(checked), text, common);
  if (failed != 0) return failed;
  notice(progress.summary(), common);
  return std::ranges::all_of(checked, [](auto& one) { return one.verdict.good(); }) ? 0 : not_good;
}

// ---- export

struct WantedExport {
  std::string subject;
  std::string format = "safetensors";
  std::string directory;
  std::string shard_size;
  bool external_data = false;
  bool sha256 = false;
};

constexpr const char* sums_name = "SHA256SUMS";

// `5GB`, `500MB`, `2GiB`, `100000`: bytes; none for anything else, and for nothing.
std::optional<std::uint64_t> size_of(const std::string& text) {
  std::uint64_t amount = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, amount);
  if (parsed.ec != std::errc() || amount == 0) return std::nullopt;
  const std::string unit(parsed.ptr, end);
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  const std::pair<const char*, std::uint64_t> units[]{{"", 1},
                                                      {"B", 1},
                                                      {"KB", 1000},
                                                      {"MB", 1000'000},
                                                      {"GB", 1000'000'000},
                                                      {"KiB", 1ull << 10},
                                                      {"MiB", 1ull << 20},
                                                      {"GiB", 1ull << 30}};
  for (const auto& [name, bytes] : units) {
    if (folded(unit) == folded(name)) return amount <= most / bytes ? amount * bytes : most;
  }
  return std::nullopt;
}

Result<std::string> sha256_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ContentHash hash;
  std::vector<char> piece(1 << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add({piece.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) return Error{path + ": cannot be read again for its SHA-256"};
  return hash.finish();
}

Checked<NoValue> write_sums(const std::string& directory, std::vector<ExportedFile>& files) {
  std::string text;
  for (const ExportedFile& file : files) {
    const auto sum = sha256_of(directory + "/" + file.name);
    if (!sum) return CheckpointFault{sum.error().message};
    text += *sum + "  " + file.name + "\n";
  }
  if (auto put = replace_durably(directory, sums_name, text); !put) return put;
  files.push_back({sums_name, text.size()});
  return NoValue{};
}

Document files_document(const ExportOptions& options, const std::string& from,
                        const std::vector<ExportedFile>& files) {
  const auto one = [](const ExportedFile& file) {
    return Document{{"name", file.name}, {"bytes", file.bytes}};
  };
  return Document{
      {"checkpoint", from}, {"directory", options.directory}, {"files", list_of(files, one)}};
}

std::string files_text(const ExportOptions& options, const std::vector<ExportedFile>& files) {
  std::string out;
  for (const ExportedFile& file : files) {
    out += options.directory + "/" + file.name + "  " + bytes_text(file.bytes) + "\n";
  }
  return out;
}

int export_weights(const WantedExport& wanted, const CommonOptions& common) {
  ExportOptions options;
  options.directory = wanted.directory;
  options.format = folded(wanted.format) == "onnx" ? ExportFormat::onnx : ExportFormat::safetensors;
  options.external_data = wanted.external_data;
  const bool is_onnx = options.format == ExportFormat::onnx;
  if (is_onnx ? !wanted.shard_size.empty() : wanted.external_data) {
    throw VerbEnd(usage_error,
                  is_onnx ? "--shard-size is for safetensors: leave it away with --format onnx"
                          : "--external-data is for ONNX: add --format onnx");
  }
  if (!wanted.shard_size.empty()) {
    const auto bytes = size_of(wanted.shard_size);
    if (!bytes) {
      throw VerbEnd(usage_error,
                    "--shard-size: invalid size '" + wanted.shard_size + "'; write 500MB or 2GiB");
    }
    options.shard_bytes = *bytes;
  }
  const auto subject = single_checkpoint(Home::from_environment(), wanted.subject);
  const CheckpointStanding standing = standing_of_checkpoint(subject.path());
  if (const auto* bad = std::get_if<CheckpointQuarantine>(&standing)) {
    notice("note: " + *subject.name + " is quarantined: " + bad->reason, common);
  }
  if (wanted.sha256) options.complete = write_sums;
  const auto files = export_checkpoint(subject.path(), options);
  if (!files) {
    throw VerbEnd(no_such_job, "cannot export " + subject.path() + ": " + files.reason());
  }
  return print_result(files_document(options, subject.path(), files.value()),
                      files_text(options, files.value()), common);
}

// ---- the verbs

void add_list_and_show(CommandLine& line) {
  verb<std::string>(line, "list", "List checkpoints, the newest first", list,
                    [](Arguments& of, std::string& typed) {
                      of.argument("DIR|JOB", typed, "A directory of checkpoints, or a job");
                    });
  verb<std::string>(
      line, "show", "Print what one holds: model, options, data, shards", show,
      [](Arguments& of, std::string& typed) { of.argument("DIR|JOB", typed, one_or_newest); });
}

void add_verify(CommandLine& line) {
  verb<VerifyOptions>(line, "verify", "Read every byte and report what is damaged",
                      verify_checkpoints, [](Arguments& of, VerifyOptions& options) {
                        of.argument("DIR|JOB", options.subject, one_or_newest);
                        of.flag("--all", options.all,
                                "All of the directory or job, not only the newest");
                        of.option("--threads", options.threads,
                                  "Readers at a time (default: the cores, at most 8)");
                      });
}

void add_export(CommandLine& line) {
  verb<WantedExport>(line, "export", "Write the weights for other programs", export_weights,
                     [](Arguments& of, WantedExport& wanted) {
                       of.argument("DIR|JOB", wanted.subject, one_or_newest);
                       of.choice("--format", wanted.format, {"safetensors", "onnx"},
                                 "Hugging Face's GPT-2 layout (default), or a graph for inference");
                       of.option("--out", wanted.directory,
                                 "Into this directory, which is new or empty");
                       of.require("--out");
                       of.option("--shard-size", wanted.shard_size,
                                 "Largest file of safetensors: 500MB, 2GiB (default 5GB)");
                       of.flag("--external-data", wanted.external_data,
                               "ONNX: weights in a file of their own (above 2 GiB always)");
                       of.flag("--sha256", wanted.sha256, "Write SHA256SUMS too");
                     });
}

}  // namespace

void add_checkpoint(CommandLine& line) {
  line.group({checkpoint_group, "Checkpoints: list, check, quarantine, export"});
  add_list_and_show(line);
  add_verify(line);
  add_deed(line, "quarantine", "Exclude a checkpoint from resumes until it is released",
           Reason::required,
           {[](const CheckpointSubject& subject, const std::string& reason) {
              return quarantine_checkpoint(subject.root, {*subject.name, "manual", 0}, reason);
            },
            "is quarantined: no resume takes it"});
  add_deed(line, "release", "End a quarantine", Reason::required,
           {[](const CheckpointSubject& subject, const std::string& reason) {
              return release_checkpoint(subject.path(), reason);
            },
            "may be resumed from again"});
  add_deed(line, "pin", "Protect a checkpoint from retention", Reason::optional,
           {[](const CheckpointSubject& subject, const std::string& reason) {
              return pin_checkpoint(subject.path(), reason);
            },
            "is pinned: nothing deletes it"});
  add_deed(line, "unpin", "End a pin", Reason::none,
           {[](const CheckpointSubject& subject, const std::string&) {
              return unpin_checkpoint(subject.path());
            },
            "is no longer pinned"});
  add_export(line);
}

}  // namespace muster
