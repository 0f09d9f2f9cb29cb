// `muster checkpoint …`: what there is to resume from, whether it is whole, what may be taken, and
// taking the weights elsewhere. Works on the files alone; no controller is needed.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/checkpoint/export.h"
#include "cli/checkpoint/report.h"
#include "cli/checkpoint/subject.h"
#include "cli/checkpoint/verify.h"
#include "cli/client/find.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "runtime/checkpoint/grading.h"
#include "runtime/checkpoint/resume_log.h"

namespace muster {

namespace {

constexpr const char* checkpoint_group = "checkpoint";
constexpr const char* one_or_newest =
    "A checkpoint's directory; or a directory of them or a job, with @STEP or its newest one";

void verb(CommandLine& line, const std::string& name, const std::string& summary,
          const CommandLine::Declare& declare) {
  VerbTexts texts{name, summary};
  texts.azure_scope = false;
  line.verb_of(checkpoint_group, texts, declare);
}

int list(const std::string& typed, const CommonOptions& common) {
  const auto subject = checkpoint_subject(Home::from_environment(), typed);
  if (!subject) return complain(subject.error().message, no_such_job, common);
  CheckpointLines known = checkpoint_lines(subject->root);
  if (!known.trouble.empty()) return complain(known.trouble, internal_error, common);
  if (subject->name) {
    std::erase_if(known.lines, [&](const CheckpointLine& line) {
      return checkpoint_directory_name(line.name) != *subject->name;
    });
  }
  if (!wants_table(common)) return print_document(lines_document(known.lines), common);
  if (known.lines.empty()) {
    notice(subject->root + " holds no checkpoints", common);
    return 0;
  }
  const int width = is_terminal(Stream::out) ? terminal_width(Stream::out) : 0;
  write_all(Stream::out, lines_table(known.lines, width, wants_color(common.color, Stream::out)));
  return 0;
}

int show(const std::string& typed, const CommonOptions& common) {
  const auto subject = single_checkpoint(Home::from_environment(), typed);
  if (!subject) return complain(subject.error().message, no_such_job, common);
  const auto manifest = read_manifest_alone(subject->path());
  if (!manifest) return complain(subject->path() + ": " + manifest.reason(), no_such_job, common);
  for (const CheckpointLine& line : checkpoint_lines(subject->root).lines) {
    if (line.path != subject->path()) continue;
    CommonOptions form = common;
    if (wants_table(common)) form.output = OutputFormat::yaml;
    return print_document(manifest_document(manifest.value(), line), form);
  }
  return complain(subject->path() + ": is gone", no_such_job, common);
}

// What an operator decides about one checkpoint, and the sentence when it is done.
struct OperatorDeed {
  std::function<Checked<NoValue>(const CheckpointSubject&, const std::string& reason)> act;
  std::string done;
};

int decide(const OperatorDeed& deed, const std::string& typed, const std::string& reason,
           const CommonOptions& common) {
  const auto subject = checkpoint_subject(Home::from_environment(), typed);
  if (!subject) return complain(subject.error().message, no_such_job, common);
  if (!subject->name) {
    return complain(typed + ": name one checkpoint: " + typed + "@STEP, or its directory",
                    no_such_job, common);
  }
  const auto done = deed.act(*subject, reason);
  if (!done) return complain(done.reason(), no_such_job, common);
  notice(*subject->name + " " + deed.done, common);
  return wants_table(common) ? 0 : list(subject->path(), common);
}

Checked<NoValue> quarantine(const CheckpointSubject& subject, const std::string& reason) {
  return quarantine_checkpoint(subject.root, {*subject.name, "manual", 0}, reason);
}

Checked<NoValue> release(const CheckpointSubject& subject, const std::string& reason) {
  return release_checkpoint(subject.path(), reason);
}

Checked<NoValue> pin(const CheckpointSubject& subject, const std::string& reason) {
  return pin_checkpoint(subject.path(), reason);
}

Checked<NoValue> unpin(const CheckpointSubject& subject, const std::string&) {
  return unpin_checkpoint(subject.path());
}

enum class Reason { none, optional, required };

void add_deed(CommandLine& line, const std::string& name, const std::string& summary,
              Reason reason_is, const OperatorDeed& deed) {
  verb(line, name, summary, [=](Arguments& of) {
    auto typed = std::make_shared<std::string>();
    auto reason = std::make_shared<std::string>();
    of.argument("DIR|JOB@STEP", *typed,
                "A checkpoint's directory, or a step of a directory or job");
    if (reason_is != Reason::none) of.option("--reason", *reason, "Why, for those who come later");
    if (reason_is == Reason::required) of.require("--reason");
    return [=](const CommonOptions& common) { return decide(deed, *typed, *reason, common); };
  });
}

void add_list_and_show(CommandLine& line) {
  verb(line, "list", "List checkpoints, the newest first", [](Arguments& of) {
    auto typed = std::make_shared<std::string>();
    of.argument("DIR|JOB", *typed, "A directory of checkpoints, or a job");
    return [typed](const CommonOptions& common) { return list(*typed, common); };
  });
  verb(line, "show", "Print what one holds: model, options, data, shards", [](Arguments& of) {
    auto typed = std::make_shared<std::string>();
    of.argument("DIR|JOB", *typed, one_or_newest);
    return [typed](const CommonOptions& common) { return show(*typed, common); };
  });
}

void add_verify(CommandLine& line) {
  verb(line, "verify", "Read every byte and say what is damaged", [](Arguments& of) {
    auto options = std::make_shared<CheckpointVerifyOptions>();
    of.argument("DIR|JOB", options->subject, one_or_newest);
    of.flag("--all", options->all, "All of the directory or job, not only the newest");
    of.option("--threads", options->threads, "Readers at a time (default: the cores, at most 8)");
    return [options](const CommonOptions& common) { return verify_checkpoints(*options, common); };
  });
}

void add_export(CommandLine& line) {
  verb(line, "export", "Write the weights for other programs", [](Arguments& of) {
    auto options = std::make_shared<CheckpointExportOptions>();
    of.argument("DIR|JOB", options->subject, one_or_newest);
    of.choice("--format", options->format, {"safetensors", "onnx"},
              "Hugging Face's GPT-2 layout (default), or a graph for inference");
    of.option("--out", options->directory, "Into this directory, which is new or empty");
    of.require("--out");
    of.option("--shard-size", options->shard_size,
              "Largest file of safetensors: 500MB, 2GiB (default 5GB)");
    of.flag("--external-data", options->external_data,
            "ONNX: weights in a file of their own (above 2 GiB always)");
    of.flag("--sha256", options->sha256, "Write SHA256SUMS too");
    return [options](const CommonOptions& common) { return export_weights(*options, common); };
  });
}

}  // namespace

void add_checkpoint(CommandLine& line) {
  line.group({checkpoint_group, "Checkpoints: list, check, quarantine, export"});
  add_list_and_show(line);
  add_verify(line);
  add_deed(line, "quarantine", "Never resume from one again", Reason::required,
           {quarantine, "is quarantined: no resume takes it"});
  add_deed(line, "release", "Lift a quarantine", Reason::required,
           {release, "may be resumed from again"});
  add_deed(line, "pin", "Keep one from being deleted", Reason::optional,
           {pin, "is pinned: nothing deletes it"});
  add_deed(line, "unpin", "Let retention delete one again", Reason::none,
           {unpin, "is no longer pinned"});
  add_export(line);
}

}  // namespace muster
