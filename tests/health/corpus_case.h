// One injected fault as a text file: what is broken on a healthy node, and when, and what must be
// said of it. Lines `word rest`; `#` begins a comment, of which the first is the title.
//
//   node h100 | a100
//   phase periodic | qualification | prolog | …   in which all runs are; default: qualification
//   busy                                           ranks run; default: only in periodic
//   up SECONDS                                     since boot, at the start; default: a day
//   profile WORDS                                  see CorpusPlayer
//   at SECONDS                                     of what follows; default: 20
//   until SECONDS                                  the end; default: 75 behind the last
//   set PATH TEXT   append PATH TEXT   remove PATH   error PATH WHY   hang PATH
//   add PATH NUMBER   grow PATH NUMBER_A_SECOND
//   nvml LINE   nvml-add KEY NUMBER   nvml-grow KEY NUMBER_A_SECOND   nvml-stop CALL
//   kmsg TEXT   kmsg-old SECONDS_AGO TEXT   event GPU TYPE DATA
//   kill [GPU]   reset GPU   job-death   boot ID   restart   know WORDS
//   expect CHECK DEVICE SEVERITY CLASS [SECONDS]   a fault stands; so long after it was injected
//   expect CHECK DEVICE unknown
//   never CHECK [DEVICE]                           no fault of it; `never *`: none at all
//
// DEVICE `-` is the node. In texts \n and \xNN are bytes; {gpu3} is "0000:5d:00" as an Xid has it,
// {pci3} with its function, {hca3} the adapter's, {port3} the folder of its port, {hcadir3} its
// own.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "health/model/check.h"
#include "scheduler/model/result.h"
#include "tests/health/fake_node.h"

namespace muster {

struct CorpusEdit {
  std::chrono::seconds at{20};
  std::string verb;
  std::string rest;
};

struct CorpusExpectation {
  std::string check;
  std::string device;
  std::string severity;  // empty: unknown
  std::string fault_class;
  std::optional<std::chrono::seconds> within;
};

struct CorpusNever {
  std::string check;
  std::optional<std::string> device;
};

struct CorpusCase {
  std::string name;  // of the file
  std::string title;
  FakeKind node = FakeKind::h100;
  Phase phase = Phase::qualification;
  bool is_busy = false;
  std::chrono::seconds up = std::chrono::hours(24);
  std::vector<std::string> profile;
  std::vector<CorpusEdit> edits;
  std::chrono::seconds until{0};
  std::vector<CorpusExpectation> expected;
  std::vector<CorpusNever> never;
};

Result<CorpusCase> parse_corpus_case(const std::string& name, std::string_view text);

// With escapes undone and names of devices filled in.
std::string corpus_text(std::string_view text, const FakeNode& node);

}  // namespace muster
