d=$(mktemp -d) && cd $d
python3 -m venv v && . v/bin/activate && python -c 'import sys; print(sys.prefix != sys.base_prefix)' && pip --version | cut -d' ' -f1
mkdir p && cat > p/setup.py <<'P'
from setuptools import setup
setup(name='thing', version='1.0', py_modules=['thing'])
P
echo 'def f(): return 42' > p/thing.py
pip install -q --no-build-isolation --no-index ./p 2>&1 | grep -v -i -e warning -e notice; cd / && python -c 'import thing; print(thing.f(), thing.__file__.split("/")[-2])'
rm -rf $d
