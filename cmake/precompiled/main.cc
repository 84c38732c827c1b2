// The precompiled headers need a target that they belong to: PlimsollPrecompiled.cmake.
int main() {}
