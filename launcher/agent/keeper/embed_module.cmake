# Writes OUTPUT, a C++ source whose function NAME returns the text of INPUT; run as cmake -P.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#include \"launcher/agent/keeper/files.h\"

namespace muster {

std::string_view ${NAME}() {
  return R\"python(${text})python\";
}

}  // namespace muster
")
