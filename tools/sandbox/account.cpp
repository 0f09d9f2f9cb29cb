#include "tools/sandbox/account.h"

#include <pwd.h>

#include <algorithm>
#include <vector>

#include "tools/sandbox/files.h"
#include "tools/sandbox/run_command.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

const fs::path accounts = fs::path(sandbox_root) / "accounts";
constexpr const char* made_here = "made-here";

bool is_account_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 32 && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(), fits);
}

// No password, and yet not locked: keys work. Noted first: who is killed in between leaves the
// note.
Status make_account(const std::string& name) {
  if (auto noted = write_file(accounts / name / made_here, "", 0644); !noted) return noted;
  const auto made = run_command({"useradd", "--no-create-home", "--home-dir", "/home/" + name,
                                 "--shell", "/bin/bash", "--password", "*", name});
  if (!made) return Error{"cannot make the account " + name + ": " + made.error().message};
  return Done{};
}

bool is_in_use(const fs::path& account) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(account, ignored)) {
    if (entry.path().filename() != made_here) return true;
  }
  return false;
}

void release(const fs::path& account, const SandboxLayout& layout) {
  std::error_code ignored;
  if (!fs::remove(account / layout.prefix(), ignored) || is_in_use(account)) return;
  const std::string name = account.filename().string();
  if (fs::exists(account / made_here, ignored) && find_account(name)) {
    (void)run_command({"userdel", name});
    fs::remove(fs::path("/home") / name, ignored);  // the mount point, and only when empty
  }
  remove_folder(account);
}

}  // namespace

std::optional<Account> find_account(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (entry == nullptr) return std::nullopt;
  return Account{name, entry->pw_uid, entry->pw_gid, entry->pw_dir};
}

Result<Account> take_account(const std::string& name, const SandboxLayout& layout) {
  if (!is_account_name(name)) return Error{"'" + name + "' is no name of an account"};
  if (auto made = make_folder(accounts / name, 0755); !made) return made.error();
  if (auto noted = write_file(accounts / name / layout.prefix(), "", 0644); !noted) {
    return noted.error();
  }
  if (!find_account(name)) {
    if (auto made = make_account(name); !made) return made.error();
  }
  auto account = find_account(name);
  if (!account) return Error{"the account " + name + " was made and cannot be found"};
  return *account;
}

bool has_accounts(const SandboxLayout& layout) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(accounts, ignored)) {
    if (fs::exists(entry.path() / layout.prefix(), ignored)) return true;
  }
  return false;
}

void release_accounts(const SandboxLayout& layout) {
  std::error_code ignored;
  std::vector<fs::path> known;
  for (const auto& entry : fs::directory_iterator(accounts, ignored)) {
    known.push_back(entry.path());
  }
  for (const fs::path& account : known) release(account, layout);
}

}  // namespace muster
