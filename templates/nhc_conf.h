// Imports an nhc.conf, the file of LBNL's Node Health Check and of the checks that Azure added to
// it: lines of `<target> || <check> arguments`. What a profile can say becomes profiles; all other
// lines are listed, none is run: a file of shell commands is data here. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "health/model/profile.h"

namespace muster {

// What the lines of one target say, in file order.
struct NhcFragment {
  std::string target;  // "*", "{n[01-20],m03}"
  HealthProfile profile;
};

struct NhcSkippedLine {
  int line = 0;
  std::string text;  // shortened
  std::string why;
};

struct NhcImport {
  std::vector<NhcFragment> fragments;
  std::vector<NhcSkippedLine> skipped;  // by line
  std::vector<std::string> notes;       // "line 7: …": imported, and means something else here
};

// A fragment for each target.
NhcImport import_nhc_conf(std::string_view text);

// One fragment with the lines that are for this host, `host` being its target; other hosts' lines
// are neither imported nor listed.
NhcImport import_nhc_conf_for(std::string_view text, std::string_view host);

}  // namespace muster
