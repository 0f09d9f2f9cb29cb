#include <cstdlib>

#include "cli/verbs/verbs.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

VerbShape shape() {
  CommandLine line;
  add_run(line);
  add_logs(line);
  add_checkpoint(line);
  add_health(line);
  add_job(line);
  add_list(line);
  add_cancel(line);
  add_drain(line);
  add_init(line);
  add_completion(line);
  return line.shape();
}

bool have(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

// The shell reads the script without running it.
bool parses(const std::string& shell, const std::string& script) {
  Folder folder;
  folder.append("script", script);
  return std::system((shell + " -n " + (folder.path() / "script").string()).c_str()) == 0;
}

}  // namespace

TEST_CASE("completion scripts name every verb and option and are well-formed") {
  for (const std::string& script :
       {bash_completion(shape()), zsh_completion(shape()), fish_completion(shape())}) {
    CHECK_THAT(script, ContainsSubstring("run"));
    CHECK_THAT(script, ContainsSubstring("create"));
    CHECK_THAT(script, ContainsSubstring("tail"));
  }
  if (have("bash")) CHECK(parses("bash", bash_completion(shape())));
  if (have("zsh")) CHECK(parses("zsh", zsh_completion(shape())));
  if (have("fish")) CHECK(parses("fish", fish_completion(shape())));
}

TEST_CASE("zsh completion leaves variables alone that mean something to zsh") {
  const std::string script = zsh_completion(shape());
  for (const char* name : {"path", "words", "status", "options", "argv", "commands", "functions"}) {
    INFO(name);
    CHECK_THAT(script, !ContainsSubstring(std::string("local ") + name + "="));
    CHECK_THAT(script, !ContainsSubstring(std::string(" ") + name + "='"));
    CHECK_THAT(script, !ContainsSubstring(std::string(" ") + name + "=\""));
    CHECK_THAT(script, !ContainsSubstring(std::string(" ") + name + "+="));
  }
  if (!have("zsh")) return;
  Folder folder;
  folder.append("script", script);
  folder.append("try",
                "autoload -U +X compinit && compinit -u -D\nsource \"$1/script\"\n"
                "COMP_WORDS=(muster ru); COMP_CWORD=1; COMPREPLY=()\n"
                "before=$PATH; _muster; [[ $PATH == $before ]]\n");
  const std::string directory = folder.path().string();
  CHECK(std::system(("zsh -f " + directory + "/try " + directory).c_str()) == 0);
}

TEST_CASE("bash completes verbs, verbs below a verb, and options") {
  if (!have("bash")) return;
  Folder folder;
  folder.append("script", bash_completion(shape()));
  folder.append("try",
                "source \"$1/script\"\n"
                "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _muster;"
                " echo \"${COMPREPLY[@]}\"; }\n"
                "[[ $(try muster ru) == run ]] || exit 1\n"
                "[[ $(try muster job cr) == create ]] || exit 2\n"
                "[[ $(try muster run --deta) == --detach ]] || exit 3\n"
                "[[ $(try muster job create --sav) == --save-as ]] || exit 4\n"
                "[[ $(try muster checkpoint veri) == verify ]] || exit 5\n"
                "[[ $(try muster health rec) == record ]] || exit 7\n"
                "[[ $(try muster health --prom) == --prometheus-file ]] || exit 8\n"
                "[[ $(try muster health --all --prom) == --prometheus-file ]] || exit 9\n"
                "[[ $(try muster checkpoint verify --al) == --all ]] || exit 6\n"
                "[[ $(try muster list -o j) == json ]] || exit 10\n"
                "[[ $(try muster list --status F) == 'Finalizing Failed' ]] || exit 11\n"
                "[[ $(try muster completion '') == 'bash zsh fish' ]] || exit 12\n"
                "[[ $(try muster init py) == pytorch ]] || exit 13\n"
                "[[ $(try muster --cl) == --cluster ]] || exit 14\n"
                "[[ $(try muster health -o n) == 'nagios none' ]] || exit 15\n"
                "muster() { case \"$*\" in *ended_at*) echo goes ;; list*) echo over ;;\n"
                "  'completion --nodes') echo h01; echo h02 ;; esac; }\n"
                "[[ $(try muster cancel '') == goes ]] || exit 16\n"
                "[[ $(try muster logs '') == over ]] || exit 17\n"
                "[[ $(try muster drain h0) == 'h01 h02' ]] || exit 18\n"
                "[[ $(try muster health h) == 'h01 h02' ]] || exit 19\n");
  const std::string directory = folder.path().string();
  CHECK(std::system(("bash " + directory + "/try " + directory).c_str()) == 0);
}
